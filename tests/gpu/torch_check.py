"""The same check through PyTorch: an all-reduce of ones, and the sum compared."""

import os

os.environ["NCCL_HOSTID"] = f"torch-{os.environ['RANK']}"
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(0)
x = torch.ones(1024, device="cuda")
dist.all_reduce(x)
assert x.sum().item() == 1024 * dist.get_world_size()
dist.destroy_process_group()
