#!/bin/bash
# The self-test as a launcher's ranks, each taken for a host: two processes that meet at a port, on one GPU or two.
#
#   tests/gpu/many-hosts.sh path/to/unhang [folder for logs]
#
# Needs NVIDIA GPUs, a libnccl, and torchrun for its part. Prints one line a case.
set -u
unhang=$(realpath "$1")
out=${2:-$(mktemp -d)}
gpus=$(nvidia-smi -L | wc -l)
port=29900
wrong=0
mkdir -p "$out"

ranks() { # name expected_code words_of_rank_0 ranks_that_start args…
    local name=$1 code=$2 words=$3 started=$4 rank status=0 pids=()
    shift 4
    port=$((port + 2))
    for ((rank = started - 1; rank >= 0; rank--)); do
        RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$((rank % gpus)) MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            NCCL_HOSTID="host$rank" "$unhang" selftest "$@" > "$out/$name.$rank.txt" 2>&1 &
        pids+=($!)
    done
    local pid
    for pid in "${pids[@]}"; do
        wait "$pid"
        status=$?
    done
    if [ $status = "$code" ] && grep -qE "$words" "$out/$name.0.txt"; then
        echo "ok    $name exit $status: $(tail -n 1 "$out/$name.0.txt")"
    else
        echo "WRONG $name exit $status, not $code with '$words':"
        sed 's/^/      /' "$out/$name.0.txt"
        wrong=$((wrong + 1))
    fi
}

ranks passes 0 "^PASSED 2 ranks" 2
ranks rank-absent 10 "rank 1 never came" 1 --timeout 5s
ranks wrong-interface 10 "nothing0" 2 --env 1:NCCL_SOCKET_IFNAME=nothing0 --timeout 15s
ranks dry-run 12 "no evidence about NCCL" 2 --dry-run
if command -v torchrun > /dev/null; then
    NCCL_HOSTID= torchrun --nproc-per-node=2 --no-python "$unhang" selftest --dry-run > "$out/torchrun.txt" 2>&1
    echo "torchrun's exit $?, the ranks' last words: $(grep -v -e torch -e '^ ' "$out/torchrun.txt" | tail -n 1)"
fi
echo "wrong: $wrong"
