#!/bin/bash
# Asks NCCL RAS of real jobs: four ranks on one GPU (or one each), healthy and with a planted fault.
#
#   tests/gpu/ras.sh path/to/unhang [folder for transcripts]
#
# Needs an NVIDIA GPU and PyTorch. Prints one line a case: what was planted, what unhang says from the
# logs alone, with RAS, and from RAS alone.
set -u
unhang=$1
out=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
port=29600
gpus=$(nvidia-smi -L | wc -l)
ranks=4
pids=()

verdict() { # JSON on stdin
    python3 -c 'import json,sys
v=json.load(sys.stdin)["verdict"]
print(v["state"], v["class"], "ranks", v["ranks"], "|", v["summary"])'
}

ask() { # format: the plain protocol, for the transcript
    python3 - "$1" <<'PY'
import socket, sys
s = socket.create_connection(("localhost", 28028), 2)
s.settimeout(20)
say = "CLIENT PROTOCOL 2\nTIMEOUT 5\n"
say += "SET FORMAT json\nSTATUS\n" if sys.argv[1] == "json" else "VERBOSE STATUS\n"
s.sendall(say.encode())
while data := s.recv(65536):
    sys.stdout.buffer.write(data)
PY
}

start() { # mode
    port=$((port + 1))
    rm -rf "$work/job" && mkdir "$work/job"
    pids=()
    for ((r = 0; r < ranks; r++)); do
        hostid=()
        [ "$gpus" -lt "$ranks" ] && hostid=(NCCL_HOSTID="host$r")
        env "${hostid[@]}" RANK=$r WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            LOCAL_DEVICE=$((r % gpus)) NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET \
            python3 "$here/ras_job.py" "$1" > "$work/job/rank$r.log" 2>&1 &
        pids+=($!)
    done
    # Until the job is in its third step, or stands in front of it.
    for _ in $(seq 600); do
        [ "$(grep -l 'step 2' "$work"/job/rank*.log 2>/dev/null | wc -l)" = $ranks ] && break
        sleep 0.1
    done
    sleep 1
}

stop() {
    kill -CONT "${pids[@]}" 2>/dev/null
    kill -9 "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
}
trap stop EXIT

for mode in healthy skip kill stop; do
    stuck=(--stuck)
    [ $mode = healthy ] && stuck=()
    start $mode
    mkdir -p "$out/$mode"
    cp "$work"/job/*.log "$out/$mode"
    ask json > "$out/$mode/ras.json" 2> "$out/$mode/ras.err"
    ask text > "$out/$mode/ras.txt" 2>> "$out/$mode/ras.err"
    echo "== $mode"
    echo "logs    $("$unhang" report --format json "${stuck[@]}" "$work/job" | verdict)"
    echo "both    $("$unhang" report --format json "${stuck[@]}" --ras "$work/job" | verdict)"
    mkdir -p "$work/empty" && echo "NCCL version 2.28.9+cuda13.0" > "$work/empty/x.log"
    echo "alone   $("$unhang" report --format json "${stuck[@]}" --ras --ras-force "$work/empty" | verdict)"
    if [ $mode = skip ]; then
        # Without --stuck: two answers, further apart than the patience, have to prove the standstill.
        timeout --foreground --signal=INT 50 "$unhang" watch --format json --ras --ras-every=10s "$work/job" > "$work/w.json"
        echo "watched $(verdict < "$work/w.json")"
        # Nobody asked for RAS: a job of this host that stands still is asked all the same.
        timeout --foreground --signal=INT 80 "$unhang" watch --format json --ras-every=10s "$work/job" > "$work/w.json"
        echo "unasked $(verdict < "$work/w.json") sources $(grep -c 'RAS at' "$work/w.json")"
    fi
    [ -s "$out/$mode/ras.err" ] && sed 's/^/ask     /' "$out/$mode/ras.err"
    stop
done
