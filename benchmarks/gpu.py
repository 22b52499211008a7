"""Run many commands on one GPU at a time, a process each, until a time limit.

    python benchmarks/gpu.py OUT --processes 8 --seconds 1500 < jobs

A job is a line with a command of `fedswe` that has --device and --out, such as `reproduce main-table --seeds 7`;
# begins a comment. They start in this order. Processes of one GPU take turns on it unless NVIDIA's MPS is there, which
this starts. At the limit all are asked to stop and save: the same command continues them. All share OUT, and finished
runs are not repeated. If the first three jobs that end have failed, nothing more is started. Where the
machine may be taken back at any time, copy OUT away while it runs: the stored runs are whole at every moment.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    jobs = [words for line in sys.stdin if (words := shlex.split(line, comments=True))]
    if options.device.startswith("cuda") and shutil.which("nvidia-cuda-mps-control"):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False)
    options.out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running: dict[int, subprocess.Popen[bytes]] = {}
    started, failed = 0, 0
    while (started < len(jobs) or running) and time.monotonic() < end:
        if failed == started - len(running) >= 3:  # all that ended: it is not the jobs that are wrong
            jobs = jobs[:started]
        for job in [job for job, process in running.items() if process.poll() is not None]:
            code = running.pop(job).returncode
            failed += code != 0
            print(f"job {job + 1} of {len(jobs)} ended with {code}: {shlex.join(jobs[job])}", flush=True)
        while started < len(jobs) and len(running) < options.processes:
            command = [sys.executable, "-m", "fedswe", *jobs[started]]
            command += ["--device", options.device, "--out", str(options.out)]
            with open(options.out / f"job{started + 1}.log", "wb") as log:
                running[started] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
            started += 1
        time.sleep(0.5)
    for process in running.values():
        process.terminate()
    for process in running.values():
        process.wait()
    print(f"{started - len(running) - failed} of {len(jobs)} jobs finished, {failed} failed, {len(running)} stopped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
