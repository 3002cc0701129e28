#!/usr/bin/env python3
"""A watch beside a real job of two ranks: how soon it speaks, what it costs, and that the job is not slower for it.

    tests/gpu/watched.py path/to/unhang [folder for logs]

Needs PyTorch and one NVIDIA GPU or two. Prints one line a measurement; some minutes.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

unhang = os.path.realpath(sys.argv[1])
out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
out.mkdir(parents=True, exist_ok=True)
here = pathlib.Path(__file__).resolve().parent
gpus = len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines())
port = 29800


def start(mode, folder):
    """Two ranks that write their logs there."""
    global port
    port += 1
    folder.mkdir(parents=True)
    ranks = []
    for rank in range(2):
        env = dict(
            os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
            LOCAL_DEVICE=str(rank % gpus), NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,BOOTSTRAP,ENV,NET,COLL", FAULT_AT="40",
        )
        if gpus < 2:
            env["NCCL_HOSTID"] = f"host{rank}"
        log = open(folder / f"rank{rank}.log", "wb")
        job = [sys.executable, str(here / "ras_job.py"), mode]
        ranks.append(subprocess.Popen(job, env=env, stdout=log, stderr=subprocess.STDOUT))
    return ranks


def end(ranks):
    for rank in ranks:
        rank.send_signal(signal.SIGCONT)
        rank.kill()
        rank.wait()


def wait_for(folder, words, patience=60):
    until = time.time() + patience
    while time.time() < until:
        if all(words in (folder / f"rank{r}.log").read_bytes() for r in range(2)):
            return True
        time.sleep(0.05)
    return False


class Watch:
    """A watch whose lines are stamped as they come."""

    def __init__(self, folder, *more):
        self.lines = []
        self.process = subprocess.Popen(
            [unhang, "watch", *more, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.time(), line.rstrip()))

    def cost(self):
        """CPU seconds, peak MiB."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = os.sysconf("SC_CLK_TCK")
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return (int(stat[11]) + int(stat[12])) / ticks, int(peak.split()[1]) / 1024

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        self.reader.join()


def first(lines, words):
    return next(((at, line) for at, line in lines if any(word in line for word in words)), None)


for mode, seconds in (("healthy", 20), ("kill", 30), ("skip", 75)):
    folder = out / mode
    ranks = start(mode, folder)
    if not wait_for(folder, b"Init COMPLETE"):
        print(f"{mode}: the job did not start")
        end(ranks)
        continue
    watch = Watch(folder, "--ras-every", "10s")
    began = time.time()
    fault = None
    while time.time() < began + seconds:
        time.sleep(0.02)
        text = (folder / "rank1.log").read_text(errors="replace")
        if fault is None and "[job] fault" in text:
            fault = time.time()
        told = first(watch.lines, ("] hung", "] failed"))
        if fault and told and time.time() > told[0] + 12:
            break
    cpu, peak = watch.cost()
    took = time.time() - began
    watch.end()
    (folder / "watch.txt").write_text("\n".join(line for _, line in watch.lines))
    finding = first(watch.lines, ("] error", "] warning"))
    told = first(watch.lines, ("] hung", "] failed"))
    since = lambda what: f"{what[0] - fault:.2f} s after the fault: {what[1]}" if what and fault else f"{what}"
    print(f"{mode}: watched {took:.0f} s with {100 * cpu / took:.2f} % of a core and {peak:.0f} MiB")
    print(f"  first finding {since(finding)}")
    print(f"  verdict       {since(told)}")
    asked = sum("RAS" in line for _, line in watch.lines)
    print(f"  lines that cite RAS: {asked}")
    end(ranks)

print("the job's own speed, in turn without and with a watch:")
rates = {"without": [], "with": []}
for turn in range(3):
    for how in rates:
        folder = out / f"speed-{how}-{turn}"
        ranks = start("fast", folder)
        if not wait_for(folder, b"[job] warm"):
            print("  the job did not start")
            end(ranks)
            continue
        watch = Watch(folder) if how == "with" else None
        wait_for(folder, b"[job] rate", 60)
        if watch:
            cpu, _ = watch.cost()
            watch.end()
            print(f"  the watch took {cpu:.2f} s of CPU beside {(folder / 'rank0.log').stat().st_size >> 10} KiB a rank")
        text = (folder / "rank0.log").read_text(errors="replace")
        rates[how] += [float(line.split()[2]) for line in text.splitlines() if line.startswith("[job] rate")]
        end(ranks)
for how, all_ in rates.items():
    if all_:
        print(f"  {how:8} {statistics.median(all_):.0f} steps a second (median; {min(all_):.0f} to {max(all_):.0f})")
