#!/bin/bash
# The self-test on one GPU: several ranks on it, each taken for a host, healthy and with planted faults.
#
#   tests/gpu/one-gpu.sh path/to/unhang [folder for logs]
#
# Needs an NVIDIA GPU and PyTorch (for its libnccl and for the comparison). Prints one line a case.
set -u
unhang=$1
out=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
. "$here/case.sh"

gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
echo "== $gpu"
"$unhang" selftest --ranks-per-gpu 2
echo "== passes"
case_ two-ranks 0 passed --ranks-per-gpu 2
case_ four-ranks 0 passed --ranks-per-gpu 4
case_ one-rank 12 "world size 1"

echo "== beside torchrun"
began=$(date +%s.%N)
TMPDIR=$work "$unhang" selftest --ranks-per-gpu 2 --bandwidth none > /dev/null
mid=$(date +%s.%N)
torchrun --nproc-per-node=2 "$here/torch_check.py" > "$work/torch.log" 2>&1 || tail -3 "$work/torch.log"
end=$(date +%s.%N)
python3 -c "a=$mid-$began; b=$end-$mid; print(f'unhang {a:.2f} s, torchrun {b:.2f} s: {a/b:.2f} of it')"

echo "== planted faults"
case_ iface-none 10 wrong-interface --ranks-per-gpu 2 --env NCCL_SOCKET_IFNAME=nothing0 --timeout 20s
case_ iface-none-rank1 10 wrong-interface --ranks-per-gpu 2 --env 1:NCCL_SOCKET_IFNAME=nothing0 --timeout 20s
case_ stopped-init 10 "stopped (state T): rank 1" --ranks-per-gpu 2 --plant 1:init:stop --timeout 10s
case_ stopped-load 10 "stopped (state T): rank 1" --ranks-per-gpu 2 --plant 1:load:stop --timeout 10s
case_ killed-init 10 "rank-died" --ranks-per-gpu 2 --plant 1:init:kill --timeout 20s
case_ stopped-checks 10 "stopped (state T): rank 1" --ranks-per-gpu 2 --plant 1:correctness:stop --timeout 10s
case_ stopped-midway 10 "stopped (state T): rank 1&while the GPU ran an all-reduce" --ranks-per-gpu 2 --plant 1:correctness:stop-midway --timeout 10s
case_ duplicate-gpu 10 device-mapping --gpus 0,0 --timeout 20s
case_ memory-full 10 "memory" --ranks-per-gpu 2 --plant 1:device:fill-memory --timeout 30s
case_ net-ib 10 ib-rdma --ranks-per-gpu 2 --env NCCL_NET=IB --timeout 20s
case_ killed 10 "signal 9" --ranks-per-gpu 2 --plant 1:correctness:kill
echo garbage > "$work/libnccl.so.2"
case_ corrupt-libnccl 10 "cannot be loaded" --ranks-per-gpu 2 --nccl "$work/libnccl.so.2" --timeout 20s
case_ missing-libnccl 3 "no such file" --nccl /nonexistent/libnccl.so.2
# Where the system has a libnccl beside PyTorch's, it is of another version.
for wheel in "$here"/nccl-*/libnccl.so.2 $(ldconfig -p | sed -n 's/.*libnccl.so.2 .*=> //p'); do
    [ -f "$wheel" ] && case_ "version-mix" 10 version-mismatch --ranks-per-gpu 2 --nccl "1:$wheel" --timeout 20s
done

echo "== the libnccl of a process"
library=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib/libnccl.so.2")')
LD_PRELOAD=$library sleep 600 &
rank=$!
sleep 1
case_ like-a-process 0 passed --ranks-per-gpu 2 --like $rank --or-installed
kill $rank
wait $rank 2> /dev/null
case_ like-one-that-ended 3 "$rank" --ranks-per-gpu 2 --like $rank
case_ like-or-installed 0 passed --ranks-per-gpu 2 --like $rank --or-installed
grep "the installed libnccl is tested" "$work/err" || { echo "WRONG no sentence about it"; wrong=$((wrong + 1)); }

echo "== the parent is killed"
before=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)
"$unhang" selftest --ranks-per-gpu 2 --plant 1:first:stop --timeout 60s > /dev/null 2>&1 &
parent=$!
for _ in $(seq 200); do
    [ "$(pgrep -fc selftest-rank)" -ge 2 ] && [ "$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)" -gt $((before + 300)) ] && break
    sleep 0.1
done
kill -9 $parent
for _ in $(seq 50); do pgrep -f selftest-rank > /dev/null || break; sleep 0.1; done
# The driver gives the memory back a moment after the last process has gone.
for _ in $(seq 50); do
    [ "$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)" -le $((before + 50)) ] && break
    sleep 0.1
done
after=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)
echo "children left: $(pgrep -fc selftest-rank), memory before $before MiB, after $after MiB"

echo "== changes proven or not"
iface=$(ip -o -4 route get 192.0.2.1 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
[ -n "$iface" ] || iface=$(ls /sys/class/net | grep -v '^lo$' | head -1)
for n in $(seq 10); do
    case_ "cures-$n" 0 cures --ranks-per-gpu 2 --env NCCL_SOCKET_IFNAME=nothing0 --ab "NCCL_SOCKET_IFNAME=${iface:-lo}" --repeats 2 --timeout 15s
    case_ "unproven-$n" 12 not-reproduced --ranks-per-gpu 2 --ab NCCL_DEBUG_NOTHING=1 --repeats 2 --timeout 15s
done
echo "wrong: $wrong"
