"""A job of a few ranks that hangs as it is told to: healthy, skip, kill or stop; or runs as fast as it can: fast.

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
if mode == "fast":
    for name, seconds in (("warm", 1), ("rate", 8)):
        began, steps = time.time(), 0
        # All ranks leave at the same step: the first one says when.
        more = torch.ones(1, device="cuda")
        while more.item() > 0:
            for _ in range(100):
                dist.all_reduce(data)
            data.fill_(1)
            steps += 100
            more.fill_(float(time.time() - began < seconds))
            dist.broadcast(more, 0)
        print(f"[job] {name} {steps / (time.time() - began):.0f} steps a second", flush=True)
    time.sleep(3600)
for step in range(1, 1_000_000):
    # Late enough for somebody to look first.
    if step == int(os.environ.get("FAULT_AT", "3")) and guilty:
        print("[job] fault", flush=True)
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
