#!/usr/bin/env bash
# CPU time and memory of reading the Flight Recorder dumps of a large job; beside it PyTorch's own analyzer, if
# TORCHFRTRACE names it.
#
#   benches/dumps.sh [RANKS [RECORDS]]
set -euo pipefail
cd "$(dirname "$0")/.."

ranks=${1:-1024} records=${2:-2000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --release --quiet --bin unhang --example synth_dumps
target/release/examples/synth_dumps --ranks "$ranks" --records "$records" --fault size:17 --out "$folder"
du -sm "$folder" | awk '{ print $1 " MiB" }'
cat "$folder"/* >/dev/null # the cache is warm

# Prints user + system seconds and the peak in MiB of a command.
measure() {
    python3 - "$@" <<'PY'
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{used.ru_utime + used.ru_stime:.1f} s of CPU time, {used.ru_maxrss / 1024:.0f} MiB, status {done.returncode}")
print("\n".join((done.stdout + done.stderr).strip().splitlines()[:5]))
PY
}
measure target/release/unhang report --stuck "$folder"
if [ -n "${TORCHFRTRACE:-}" ]; then
    measure "$TORCHFRTRACE" "$folder" --prefix fr_rank_
fi
