"""Run the workloads with Flower, with pfl and as a plain PyTorch loop, in turn, and write the table of ratios.

    python benchmarks/peers/run.py --repetitions 3

Environments are made on the first run, beside this file. An engine of your own joins the table if its command prints
one line of JSON per workload, {"workload": NAME, "client_steps_per_s": RATE}, optionally with "versions", "processes"
and "threads" (of each process). {workload} in the command stands for the name, cnn or softmax; a command without it
is run once for all workloads:

    python benchmarks/peers/run.py --also "mine=python my_engine.py {workload}"
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from processes import DisturbedError, json_lines, output
from quiet import wait_until_idle

from results import Measurement, write

HERE = Path(__file__).resolve().parent
WORKLOADS = ("cnn", "softmax")
# Engine: environment, script and its options. The plain loop needs torch only, the same in both environments.
SCRIPTS = {
    "plain": ("pfl", "plain_loop.py {workload}"),
    "flower": ("flower", "flower_sim.py {workload}"),
    "pfl": ("pfl", "pfl_sim.py {workload}"),
    "pfl-2": ("pfl", "pfl_sim.py {workload} --workers 2"),
}
ATTEMPTS = 6
DISTURBANCE = 0.1  # the share of the processors that other programs may take during a run
PEERS = [name for name in SCRIPTS if name != "plain"]


@dataclass(frozen=True)
class Engine:
    name: str
    command: list[str]
    isolated: bool = False

    @property
    def one_workload(self) -> bool:
        """Whether the command runs one workload, which it is told."""
        return any("{workload}" in part for part in self.command)

    def run(self, repetition: int, workload: str, settle: float) -> list[Measurement]:
        """Measure; start again while other programs disturb, but take the last attempt as it is."""
        command = [part.replace("{workload}", workload) for part in self.command]
        for allowed in [DISTURBANCE] * (ATTEMPTS - 1) + [1.0]:
            wait_until_idle(settle)
            try:
                text, others = output(command, allowed, self.isolated)
            except DisturbedError as error:
                print(f"   {workload:8} {self.name:8} {error}: once more", flush=True)
            else:
                break
        return [Measurement.of(self.name, repetition, line, others) for line in json_lines(text)]


def main() -> None:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception, so that what was started is stopped too
    engines = [prepared(name, args.python) for name in ("plain", *args.peers)] + args.also
    found, failures = measure(engines, args.workloads, args.repetitions, args.settle)
    if found:
        write(args.output, found, failures, shlex.join(["python", "benchmarks/peers/run.py", *sys.argv[1:]]))
        print(f"wrote {args.output}")
    sys.exit(1 if failures else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--also", action="append", default=[], type=engine, metavar="NAME=COMMAND")
    parser.add_argument("--settle", type=float, default=120, help="seconds to wait at most for an idle machine")
    parser.add_argument("--python", default=sys.executable, help="makes the environments; pfl wants 3.10 to 3.12")
    parser.add_argument("--output", type=Path, default=HERE / "RESULTS.md")
    return parser.parse_args()


def engine(text: str) -> Engine:
    name, equals, command = text.partition("=")
    if not (name and equals and command):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COMMAND")
    return Engine(name, shlex.split(command))


def prepared(name: str, python: str) -> Engine:
    """An engine of this folder, its environment made if it is missing or was made from other requirements."""
    environment, line = SCRIPTS[name]
    folder, requirements = HERE / f".venv-{environment}", HERE / f"requirements-{environment}.txt"
    interpreter, ready = folder / "bin" / "python", folder / "requirements.txt"
    if not ready.exists() or ready.read_text() != requirements.read_text():
        print(f"installing {requirements.name}", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", requirements], check=True)
        ready.write_text(requirements.read_text())
    script, *options = line.split()
    return Engine(name, [str(interpreter), str(HERE / script), *options], isolated=True)


def measure(
    engines: list[Engine], workloads: Sequence[str], repetitions: int, settle: float
) -> tuple[list[Measurement], list[str]]:
    """Every engine in turn, again and again, so that a change of the machine's load meets them all."""
    found: list[Measurement] = []
    failures: list[str] = []
    jobs = [(e, workload) for workload in workloads for e in engines if e.one_workload]
    jobs += [(e, "all") for e in engines if not e.one_workload]
    for repetition in range(repetitions):
        for e, workload in jobs:
            try:
                new = [m for m in e.run(repetition, workload, settle) if m.workload in workloads]
            except RuntimeError as error:
                failures.append(f"{e.name}, {workload}, repetition {repetition + 1}: {error}")
                print(failures[-1], file=sys.stderr, flush=True)
            else:
                print(*new, sep="\n", flush=True)
                found += new
    return found, failures


if __name__ == "__main__":
    main()
