#!/bin/bash
# The self-test on two GPUs: every operation and size, planted faults, changes proven, each path, NVML beside
# nvidia-smi, and a watch beside a real job.
#
#   tests/gpu/two-gpus.sh path/to/unhang [folder for logs]
#
# Needs PyTorch and two NVIDIA GPUs; on one it runs what two ranks that share it can show, and says what it
# leaves out. Prints one line a case; ten minutes, half of them without the watch (WATCHED=0). NVLink
# multicast stays off.
set -u
unhang=$(realpath "$1")
out=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
mkdir -p "$out"
. "$here/case.sh"

gpus=$(nvidia-smi -L | wc -l)
two=$((gpus >= 2))
if [ $two = 1 ]; then
    seats=(--gpus 0,1)
else
    seats=(--gpus 0 --ranks-per-gpu 2)
    echo "ONE GPU: two ranks share it, so that P2P, SHM and NVLink are not tested"
fi
only_two() { [ $two = 1 ] || { echo "left out: $1 (needs two GPUs)"; return 1; }; }
seconds() { # command...: its wall time
    local began
    began=$(date +%s.%N)
    "$@" > "$work/timed.out" 2>&1 || tail -n 3 "$work/timed.out" >&2
    python3 -c "import time; print(f'{time.time()-$began:.2f}')"
}

echo "== the machine"
nvidia-smi --query-gpu=index,name,driver_version,pci.bus_id --format=csv,noheader
{
    nvidia-smi topo -m
    for what in r w n a; do nvidia-smi topo -p2p $what; done
    nvidia-smi nvlink -s
} > "$out/smi.txt" 2>&1
head -n 12 "$out/smi.txt"

echo "== all operations, all sizes"
"$unhang" selftest "${seats[@]}" --bandwidth full | tee "$out/full.txt"
"$unhang" selftest "${seats[@]}" --bandwidth full --format json > "$out/full.json"

echo "== beside torchrun: the quick check"
for n in 1 2 3; do
    a=$(seconds "$unhang" selftest "${seats[@]}" --bandwidth none)
    b=$(seconds torchrun --nproc-per-node=2 "$here/torch_check.py")
    python3 -c "print(f'unhang $a s, torchrun $b s: {$a/$b:.2f} of it', '(goal: a third)')"
done

echo "== beside PyTorch: bandwidth of large messages"
torchrun --nproc-per-node=2 "$here/torch_bandwidth.py" 2> "$work/torch.err" | tee "$work/torch.txt"
[ -s "$work/torch.txt" ] || tail -n 3 "$work/torch.err"
python3 - "$out/full.json" "$work/torch.txt" $two <<'PY'
import json, sys
full, torch, two = sys.argv[1:]
ours = {(t["op"], t["bytes"]): t["busbw"] / 1e9 for t in json.load(open(full))["bandwidth"]}
# nccl-tests with NCCL 2.28.9 and NVLS off on two H200, of another day.
known = {"all-reduce": (324, 330), "reduce-scatter": (237, 239), "send-recv": (299, 304)}
for line in open(torch):
    _, op, size, theirs = line.split()
    mine, theirs = ours.get((op, int(size))), float(theirs)
    if mine is None:
        print(f"  {op} {size}: not measured by unhang")
        continue
    low, high = known[op]
    day = f", nccl-tests {low} to {high}: {'within' if low * .9 <= mine <= high * 1.1 else 'NOT within'} 10 %" if two == "1" else ""
    near = "within" if abs(mine / theirs - 1) <= 0.05 else "NOT within"
    print(f"  {op:15} {int(size) >> 20:5} MiB  unhang {mine:6.1f}  PyTorch {theirs:6.1f} GB/s: {near} 5 %{day}")
PY

echo "== planted faults"
if only_two "P2P off, SHM off, /dev/shm full"; then
    case_ p2p-off 11 "NCCL_P2P_DISABLE=1&SHM&p2p" "${seats[@]}" --env NCCL_P2P_DISABLE=1
    case_ shm-off 11 "NCCL_SHM_DISABLE&NET&p2p" "${seats[@]}" --env NCCL_P2P_DISABLE=1 --env NCCL_SHM_DISABLE=1
    small="mount -t tmpfs -o size=64k tmpfs /dev/shm && exec $(printf %q "$unhang") \"\$@\""
    printf '#!/bin/bash\nexec unshare -m bash -c %q small "$@"\n' "$small" > "$work/small-shm"
    chmod +x "$work/small-shm"
    whole=$unhang unhang=$work/small-shm
    case_ shm-full 10 "shm" "${seats[@]}" --env NCCL_P2P_DISABLE=1 --env NCCL_CUMEM_HOST_ENABLE=0 --timeout 20s
    unhang=$whole
fi
case_ stopped 10 "stopped (state T): rank 1" "${seats[@]}" --plant 1:correctness:stop --timeout 10s
case_ stopped-midway 10 "stopped (state T): rank 1&while the GPU ran an all-reduce" "${seats[@]}" --plant 1:correctness:stop-midway --timeout 10s
case_ duplicate-gpu 10 device-mapping --gpus 0,0 --timeout 20s
case_ algo-differs 10 "env-mismatch&NCCL_ALGO" "${seats[@]}" --env 0:NCCL_ALGO=Ring --env 1:NCCL_ALGO=Tree --timeout 15s
# Where the system has a libnccl beside PyTorch's, it is of another version.
for wheel in "$here"/nccl-*/libnccl.so.2 $(ldconfig -p | sed -n 's/.*libnccl.so.2 .*=> //p'); do
    [ -f "$wheel" ] && case_ "version-mix" 10 version-mismatch "${seats[@]}" --nccl "1:$wheel" --timeout 20s
done

echo "== changes proven or not"
if only_two "P2P off as a change, P2P on as a change"; then
    for n in $(seq 10); do
        case_ "off-is-no-cure-$n" 12 slower "${seats[@]}" --ab NCCL_P2P_DISABLE=1 --repeats 2 --timeout 20s
    done
    case_ on-restores 0 bandwidth "${seats[@]}" --env NCCL_P2P_DISABLE=1 --ab NCCL_P2P_DISABLE=0 --timeout 20s
fi
iface=$(ip -o -4 route get 192.0.2.1 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
case_ cures 0 cures "${seats[@]}" --env NCCL_SOCKET_IFNAME=nothing0 --ab "NCCL_SOCKET_IFNAME=${iface:-lo}" --repeats 2 --timeout 15s

echo "== pairs and paths"
only_two "--pairs" && "$unhang" selftest --pairs
"$unhang" selftest "${seats[@]}" --transports

echo "== NVML beside nvidia-smi, and journals"
"$here/nvml.sh" "$unhang" "$out/nvml"
"$unhang" report --gpu --format json "$work" > "$work/gpus.json" 2>/dev/null
python3 - "$work/gpus.json" <<'PY'
import json, subprocess, sys
hosts = json.load(open(sys.argv[1]))["job"].get("gpus") or [{}]
pairs = {(p["a"], p["b"]): p for p in hosts[0].get("pairs", [])}
for what, letter in (("read", "r"), ("write", "w"), ("nvlink", "n"), ("atomics", "a")):
    rows = subprocess.run(["nvidia-smi", "topo", "-p2p", letter], capture_output=True, text=True).stdout
    rows = [row.split()[1:] for row in rows.splitlines() if row.strip().startswith("GPU") and "X" in row]
    for (a, b), pair in sorted(pairs.items()):
        smi = rows[a][b] if a < len(rows) and b < len(rows[a]) else "?"
        same = (pair[what] == "ok") == (smi == "OK")
        print(f"  {'same  ' if same else 'DIFFER'} GPU {a} - GPU {b} {what}: unhang {pair[what]}, nvidia-smi {smi}")
    # nvidia-smi names the NVLinks of a pair instead of its PCIe way, where it has some.
short = {"switch": "PIX", "switches": "PXB", "host-bridge": "PHB", "node": "NODE", "system": "SYS"}
rows = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True).stdout
rows = [row.split()[1:] for row in rows.splitlines() if row.strip().startswith("GPU") and " X " in row.replace("\t", " ")]
for (a, b), pair in sorted(pairs.items()):
    smi = rows[a][b] if a < len(rows) and b < len(rows[a]) else "?"
    verdict = "same  " if smi.startswith("NV") or short.get(pair["path"]) == smi else "DIFFER"
    print(f"  {verdict} GPU {a} - GPU {b} way: unhang {pair['path']}, nvidia-smi {smi}")
print(f"  {len(pairs)} pairs")
PY

echo "== a watch beside a real job"
[ "${WATCHED:-1}" = 0 ] || "$here/watched.py" "$unhang" "$out/watched"
echo "wrong: $wrong"
