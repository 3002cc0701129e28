"""A job of a few ranks that hangs as it is told to: healthy, skip, kill or stop.

Ranks share one GPU where each has an NCCL_HOSTID of its own: NCCL then takes them for hosts.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

mode = sys.argv[1]
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ.get("LOCAL_DEVICE", "0")))
dist.init_process_group("nccl")
data = torch.ones(1 << 18, device="cuda")
guilty = rank == 1
for step in range(1, 1_000_000):
    if step == 3 and guilty:
        if mode == "skip":
            print("[job] rank 1 leaves the loop", flush=True)
            time.sleep(3600)
        if mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(data)
    data.fill_(1)
    torch.cuda.synchronize()
    print(f"[job] step {step}", flush=True)
    time.sleep(0.2)
