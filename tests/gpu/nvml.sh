#!/bin/bash
# What unhang says of a GPU beside what nvidia-smi says in the same second, idle and with a job on it;
# and a journal of that job, to be played where there is no GPU.
#
#   tests/gpu/nvml.sh path/to/unhang [folder for what comes out]
#
# Needs an NVIDIA GPU and, for the job, PyTorch. Every step says whether it succeeded; ends within
# four minutes. Leaves in the folder: summary.txt, idle.json, busy.json, smi.txt, healthy.journal,
# stopped.journal, logs.tar.
set -u
unhang=$1
out=${2:-${OUT:-$(mktemp -d)}}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
ranks=2
port=$((29700 + RANDOM % 200))
pids=()
failed=0
mkdir -p "$out"
exec > >(tee "$out/summary.txt") 2>&1

step() { # name, command…
    local name=$1
    shift
    if "$@"; then
        echo "ok     $name"
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
}

fields=index,uuid,name,pci.bus_id,utilization.gpu,power.draw,enforced.power.limit,temperature.gpu
fields+=,clocks.sm,clocks.max.sm,clocks.mem,memory.total,memory.used
fields+=,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max
fields+=,mig.mode.current,ecc.mode.current
fields+=,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total

compare() { # name: asks both, unhang between two looks of nvidia-smi
    local name=$1
    mkdir -p "$work/empty"
    nvidia-smi --query-gpu=$fields --format=csv,noheader,nounits > "$work/before.csv" || return 1
    timeout 40 "$unhang" report --gpu --format json "${2:-$work/empty}" > "$out/$name.json"
    nvidia-smi --query-gpu=$fields --format=csv,noheader,nounits > "$work/after.csv" || return 1
    nvidia-smi --query-compute-apps=gpu_bus_id,pid,used_memory,process_name --format=csv,noheader,nounits \
        > "$work/apps.csv"
    nvidia-smi nvlink -s > "$work/nvlink.txt" 2>&1
    nvidia-smi nvlink -R > "$work/remote.txt" 2>&1
    nvidia-smi -q > "$work/q.txt" 2>&1
    # The name before and since drivers 535.
    for query in clocks_event_reasons clocks_throttle_reasons; do
        nvidia-smi --query-gpu=$query.active --format=csv,noheader > "$work/throttle.csv" && break
    done
    nvidia-smi --query-remapped-rows=gpu_bus_id,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure \
        --format=csv,noheader > "$work/rows.csv" 2>&1
    python3 - "$out/$name.json" "$work" $fields <<'PY'
import csv, json, re, sys
answer, work, fields = sys.argv[1:]
fields = fields.split(",")
hosts = json.load(open(answer))["job"].get("gpus", [])
if not hosts:
    sys.exit("unhang gave no GPU")
def rows(name):
    with open(f"{work}/{name}.csv") as file:
        return [dict(zip(fields, map(str.strip, row))) for row in csv.reader(file) if row]
before, after = rows("before"), rows("after")
number = lambda text: float(text) if re.fullmatch(r"-?[\d.]+", text or "") else None
milli = lambda v: None if v is None else v / 1000
mib = lambda v: None if v is None else v / (1 << 20)
bad = 0
def show(what, ours, smi, apart=0.0, share=0.0):
    """Between the two looks, or as near as told, counts as the same."""
    global bad
    known = [number(text) for text in smi]
    if ours is None and all(k is None for k in known):
        verdict = "same"
    elif isinstance(ours, str):
        verdict = "same" if ours in smi else "DIFFER"
    elif ours is None or all(k is None for k in known):
        verdict = "DIFFER"
    else:
        known = [k for k in known if k is not None]
        slack = apart + share * max(map(abs, known))
        verdict = "same" if min(known) - slack <= ours <= max(known) + slack else "DIFFER"
    bad += verdict != "same"
    print(f"  {verdict:6} {what:22} unhang {ours!s:>28}   nvidia-smi {' … '.join(dict.fromkeys(smi))}")
host = hosts[0]
print(f"  driver {host['driver']} cuda {host['cuda']} gpus {len(host['gpus'])} pairs {len(host.get('pairs', []))}")
if len(host["gpus"]) != len(before):
    bad += 1
    print("  DIFFER number of GPUs")
on = lambda flag: None if flag is None else "Enabled" if flag else "Disabled"
for gpu, a, b in zip(host["gpus"], before, after):
    smi = lambda field: [a[field], b[field]]
    pcie = gpu["pcie"]
    show("index", gpu["index"], smi("index"))
    show("uuid", gpu["uuid"], smi("uuid"))
    show("name", gpu["name"], smi("name"))
    show("bus id", gpu["bus_id"], smi("pci.bus_id"))
    # Of the last moments only: a job that steps is busy one moment and idle the next.
    show("busy %", gpu["busy"], smi("utilization.gpu"), apart=10)
    show("power W", milli(gpu["power_mw"]), smi("power.draw"), apart=15, share=0.1)
    show("power limit W", milli(gpu["power_limit_mw"]), smi("enforced.power.limit"), apart=0.1)
    show("temperature C", gpu["temperature_c"], smi("temperature.gpu"), apart=2)
    show("sm MHz", gpu["sm_mhz"], smi("clocks.sm"), share=0.05)
    show("sm max MHz", gpu["sm_max_mhz"], smi("clocks.max.sm"))
    show("memory MHz", gpu["memory_mhz"], smi("clocks.mem"))
    show("memory total MiB", mib(gpu["memory_total"]), smi("memory.total"), apart=1)
    show("memory used MiB", mib(gpu["memory_used"]), smi("memory.used"), apart=8)
    show("pcie generation", pcie["generation"], smi("pcie.link.gen.current"))
    show("pcie generation max", pcie["generation_max"], smi("pcie.link.gen.max"))
    show("pcie width", pcie["width"], smi("pcie.link.width.current"))
    show("pcie width max", pcie["width_max"], smi("pcie.link.width.max"))
    show("mig", on(gpu["mig"]), smi("mig.mode.current"))
    show("ecc", on(gpu["ecc"]), smi("ecc.mode.current"))
    show("ecc corrected", gpu["ecc_corrected"], smi("ecc.errors.corrected.volatile.total"))
    show("ecc uncorrected", gpu["ecc_uncorrected"], smi("ecc.errors.uncorrected.volatile.total"))
    print(f"         pcie sent {pcie['sent_kbps']} received {pcie['received_kbps']} KB/s, replays {pcie['replays']}; throttle {gpu['throttle']}")
    print(f"         remapped {gpu['remapped']} fabric {gpu['fabric']} slowdown at {gpu['slowdown_c']} C")
    with open(f"{work}/apps.csv") as file:
        apps = {row[1].strip(): (row[2].strip(), row[3].split()[0].rsplit("/", 1)[-1]) for row in csv.reader(file)
                if len(row) > 3 and row[0].strip() == gpu["bus_id"]}
    ours = {str(p["pid"]): (mib(p["memory"]), p["name"]) for p in gpu["processes"] or []}
    # A name that nvidia-smi does not find either is unknown.
    name = lambda pid: apps[pid][1] if not apps[pid][1].startswith("[") else None
    same = ours.keys() == apps.keys() and all(ours[pid][1] == name(pid) for pid in ours)
    bad += not same
    print(f"  {'same' if same else 'DIFFER':6} processes              unhang {ours}   nvidia-smi {apps}")
    print(f"         of which ranks        {[(p['pid'], p['rank']) for p in gpu['processes'] or []]}")
    # The part of `nvidia-smi -q` that is about this GPU.
    part = open(f"{work}/q.txt").read().split(f"GPU {gpu['bus_id']}", 1)[-1].split("\nGPU 0", 1)[0]
    said = lambda what: (re.findall(rf"^ *{what} *: (.*)$", part, re.M) or ["not there"])[0]
    show("pcie replays", pcie["replays"], [said("Replays Since Reset")])
    # On some GPUs nvidia-smi tells how far it is to there (T.Limit), and not where that is.
    slow = re.sub(" C$", "", said("GPU Slowdown Temp"))
    if slow == "not there":
        print(f"         slows down at         unhang {gpu['slowdown_c']} C   nvidia-smi does not tell")
    else:
        show("slows down at C", gpu["slowdown_c"], [slow])
    bits = {"idle": 1, "setting": 2, "power-cap": 4, "hardware": 8, "sync-boost": 16, "heat": 32,
            "hardware-heat": 64, "power-brake": 128, "display": 256}
    active = open(f"{work}/throttle.csv").read().splitlines()[gpu["index"]].strip()
    # Of another moment: what held the clocks may have gone.
    mask = sum(bits.get(reason, 0) for reason in gpu["throttle"]) if gpu["throttle"] is not None else None
    print(f"         throttle              unhang {mask} {gpu['throttle']}   nvidia-smi {active}")
    with open(f"{work}/rows.csv") as file:
        rows_ = [list(map(str.strip, row[1:])) for row in csv.reader(file) if row and row[0].strip() == gpu["bus_id"]]
    mapped = gpu["remapped"] and [str(gpu["remapped"]["corrected"]), str(gpu["remapped"]["uncorrected"]),
                                  "Yes" if gpu["remapped"]["pending"] else "No", "Yes" if gpu["remapped"]["failed"] else "No"]
    yes_no = [[{"1": "Yes", "0": "No"}.get(v, v) if n > 1 else v for n, v in enumerate(row)] for row in rows_]
    same = yes_no == [mapped] if mapped else not yes_no or "N/A" in yes_no[0][0]
    bad += not same
    print(f"  {'same' if same else 'DIFFER':6} rows replaced          unhang {mapped}   nvidia-smi {rows_}")
    fabric = gpu["fabric"] or {}
    smi_state = (re.findall(r"Fabric\n *State *: (.*)", part) or ["N/A"])[0].strip()
    ours_state = {"completed": "Completed", "in-progress": "In Progress", "not-started": "Not Started"}.get(fabric.get("state"), "N/A")
    same = ours_state == smi_state
    bad += not same
    print(f"  {'same' if same else 'DIFFER':6} fabric                 unhang {fabric.get('state')}   nvidia-smi {smi_state}")
    if gpu["index"] == 0 and gpu["links"]:
        ends = dict(re.findall(r"Link (\d+): Remote Device ([0-9A-Fa-f:.]+)", open(f"{work}/remote.txt").read().split("GPU 1:")[0]))
        wrong = [l["link"] for l in gpu["links"] if str(l["link"]) in ends and l["remote"]
                 and ends[str(l["link"])].upper() != l["remote"].upper()]
        bad += bool(wrong)
        print(f"  {'DIFFER' if wrong else 'same':6} nvlinks' other ends    {len(ends)} told by nvidia-smi, wrong {wrong}")
    links = gpu["links"]
    speeds = re.findall(r"Link (\d+): ([\d.]+) GB/s", open(f"{work}/nvlink.txt").read().split("GPU 1:")[0]) if gpu["index"] == 0 else None
    if speeds is not None:
        ours = [(str(l["link"]), l["mbps"]) for l in links or [] if l["up"]]
        same = [n for n, _ in ours] == [n for n, _ in speeds] and all(
            m is not None and abs(m / 1000 - float(s)) < 0.6 for (_, m), (_, s) in zip(ours, speeds))
        bad += not same
        print(f"  {'same' if same else 'DIFFER':6} nvlinks up             unhang {ours}   nvidia-smi {speeds}")
    print(f"         first link {links[0] if links else links}")
print(f"  {bad} differ")
sys.exit(bad > 0)
PY
}

start() { # mode
    port=$((port + 1))
    rm -rf "$work/job" && mkdir "$work/job"
    pids=()
    local gpus r hostid
    gpus=$(nvidia-smi -L | wc -l)
    for ((r = 0; r < ranks; r++)); do
        hostid=()
        [ "$gpus" -lt "$ranks" ] && hostid=(NCCL_HOSTID="host$r")
        env "${hostid[@]}" RANK=$r WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            LOCAL_DEVICE=$((r % gpus)) NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,COLL \
            python3 "$here/ras_job.py" "$1" > "$work/job/rank$r.log" 2>&1 &
        pids+=($!)
    done
    # Until the job is in its third step.
    for _ in $(seq 400); do
        [ "$(grep -l 'step 2' "$work"/job/rank*.log 2>/dev/null | wc -l)" = $ranks ] && return 0
        sleep 0.1
    done
    tail -n 3 "$work"/job/rank*.log
    return 1
}

stop() {
    [ ${#pids[@]} = 0 ] && return
    kill -CONT "${pids[@]}" 2>/dev/null
    kill -9 "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
    pids=()
}
trap stop EXIT

watched() { # name: watches the job for a while, records it, and says what came out
    local name=$1 seconds=$2
    # In the foreground: without it the watch gets the signal twice, which ends it at once.
    timeout --foreground --signal=INT "$seconds" "$unhang" watch --no-ras --record "$out/$name.journal" \
        --format json "$work/job" > "$work/$name.json"
    "$unhang" report --format json "$out/$name.journal" > "$work/$name.replayed.json"
    python3 - "$work/$name.json" "$work/$name.replayed.json" <<'PY'
import json, sys
live, replayed = (json.load(open(path)) for path in sys.argv[1:])
v = live["verdict"]
print("  verdict", v["state"], v["class"], "ranks", v["ranks"], "|", v["summary"])
for finding in live["findings"]:
    print("  finding", finding["rule"], finding["role"], finding["title"])
for rank in live["job"]["ranks"]:
    print("  rank", rank["rank"], "host", rank["host"], "bus", rank["bus_id"], "gpu", rank.get("gpu_state"),
          "process", rank.get("process"))
same = live["verdict"] == replayed["verdict"] and live["job"].get("gpus") == replayed["job"].get("gpus")
print("  replayed from its journal:", "the same" if same else "DIFFERENT")
sys.exit(not (same and live["job"].get("gpus")))
PY
}

echo "== GPU idle"
nvidia-smi --query-gpu=driver_version --format=csv,noheader
{
    nvidia-smi
    nvidia-smi nvlink -s
    nvidia-smi nvlink -e
    nvidia-smi topo -m
    nvidia-smi -q
} > "$out/smi.txt" 2>&1
step "idle: same as nvidia-smi" compare idle

echo "== two ranks, healthy"
step "job starts" start healthy
step "busy: same as nvidia-smi" compare busy "$work/job"
step "watched and recorded" watched healthy 12
nvidia-smi nvlink -e >> "$out/smi.txt" 2>&1

echo "== rank 1 stopped by SIGSTOP"
[ ${#pids[@]} = $ranks ] && kill -STOP "${pids[1]}"
step "watched and recorded" watched stopped 25
tar -cf "$out/logs.tar" -C "$work" job
stop
echo "$failed steps failed"
exit $((failed > 0))
