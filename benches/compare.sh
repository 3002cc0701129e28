#!/usr/bin/env bash
# How much CPU `unhang report` takes beside ripgrep counting NCCL's lines in the same files.
#
#   benches/compare.sh [FOLDER]      # FOLDER for the data, default target/compare; 2.4 GiB
#
# Three jobs: a synthetic one of 1 GiB (1,024 ranks), every recorded log repeated to 256 MiB, and
# 16,384 files of 64 KiB. Both programs run over the same files one after the other, cache warm,
# three times; the best of each is printed. CPU is user + system of the process and its threads.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:-target/compare}
pattern='NCCL (INFO|WARN|CALL)'

command -v rg >/dev/null || {
    echo "ripgrep is needed: cargo install ripgrep" >&2
    exit 1
}
echo "== building" >&2
cargo build --quiet --release --bin unhang --example synth_job
unhang=$PWD/target/release/unhang
synth=$PWD/target/release/examples/synth_job

mkdir -p "$data"
if [ ! -e "$data/done" ]; then
    echo "== writing the jobs to $data" >&2
    "$synth" --ranks 1024 --bytes-per-rank 1MiB --fault count:77 --out "$data/synthetic"
    "$synth" --ranks 16384 --bytes-per-rank 64KiB --fault count:777 --out "$data/many-files"
    python3 - "$data/recorded" <<'PYTHON'
import pathlib, sys
out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
logs = [p for kind in ("cases", "healthy") for p in sorted(pathlib.Path("fixtures", kind).rglob("*.log"))]
times = (256 << 20) // sum(p.stat().st_size for p in logs)
for path in logs:
    (out / "__".join(path.parts[2:])).write_bytes(path.read_bytes() * times)
PYTHON
    touch "$data/done"
fi

python3 - "$data" "$unhang" "$pattern" <<'PYTHON'
import os, pathlib, subprocess, sys, time

data, unhang, pattern = sys.argv[1:]

def measure(command):
    """Least CPU seconds of three runs, most memory, and exit status."""
    least, most = None, 0
    for _ in range(3):
        with open(os.devnull, "wb") as sink:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        least, most = (cpu if least is None else min(least, cpu)), max(most, usage.ru_maxrss)
    return least, most / 1024, process.returncode

print(f"{'job':<12} {'files':>6} {'MiB':>6} {'rg CPU s':>9} {'unhang CPU s':>13} {'ratio':>6} {'peak MiB':>9} {'exit':>5}")
for job in ("synthetic", "recorded", "many-files"):
    folder = pathlib.Path(data, job)
    size = 0
    files = sorted(folder.iterdir())
    for path in files:  # Warms the cache.
        size += len(path.read_bytes())
    rg = measure(["rg", "-j1", "-a", "-c", pattern, str(folder)])
    own = measure([unhang, "report", "--stuck", "--format", "json", str(folder)])
    if rg[2] != 0 or own[2] not in (0, 10, 11, 12):
        sys.exit(f"{job}: rg ended with {rg[2]}, unhang with {own[2]}")
    print(f"{job:<12} {len(files):>6} {size / 2**20:>6.0f} {rg[0]:>9.2f} {own[0]:>13.2f} {own[0] / rg[0]:>6.2f} {own[1]:>9.0f} {own[2]:>5}", flush=True)
PYTHON
