"""Busbw of large messages through PyTorch, by the formulas of nccl-tests, in GB/s: one line an operation."""

import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
gpus = torch.cuda.device_count()
if gpus < world:
    os.environ["NCCL_HOSTID"] = f"torch-{rank}"
torch.cuda.set_device(rank % gpus)
dist.init_process_group("nccl")


def timed(call, warm=5, calls=20):
    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    slowest = torch.tensor([begin.elapsed_time(end) / calls / 1e3], device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def ring(data, into):
    ops = [dist.P2POp(dist.isend, data, (rank + 1) % world), dist.P2POp(dist.irecv, into, (rank - 1) % world)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def tensor(size):
    return torch.ones(size // 4, device="cuda")


big, middle = 1 << 30, 256 << 20
if gpus < world:
    big = middle = 64 << 20
a, b, into = tensor(big), tensor(middle), tensor(middle)
part = tensor(middle // world)
share = (world - 1) / world
results = [
    ("all-reduce", big, 2 * share, timed(lambda: dist.all_reduce(a))),
    ("reduce-scatter", middle, share, timed(lambda: dist.reduce_scatter_tensor(part, b))),
    ("send-recv", middle, 1.0, timed(lambda: ring(b, into))),
]
if rank == 0:
    for name, size, factor, seconds in results:
        print(f"torch {name} {size} {size / seconds * factor / 1e9:.1f}")
dist.destroy_process_group()
