"""The same check through PyTorch: an all-reduce of ones, and the sum compared."""

import os

import torch
import torch.distributed as dist

rank, gpus = int(os.environ["RANK"]), torch.cuda.device_count()
if gpus < int(os.environ["WORLD_SIZE"]):
    # Ranks that share a GPU have to be hosts to NCCL.
    os.environ["NCCL_HOSTID"] = f"torch-{rank}"
dist.init_process_group("nccl")
torch.cuda.set_device(rank % gpus)
x = torch.ones(1024, device="cuda")
dist.all_reduce(x)
assert x.sum().item() == 1024 * dist.get_world_size()
dist.destroy_process_group()
