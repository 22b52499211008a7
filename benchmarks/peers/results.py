"""From measurements to the table."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HEAD = """\
# Client-steps per second of other simulators, beside a plain PyTorch loop

A client-step is one SGD step of one client on one batch, its share of sampling, shuffling, exchanging models and
averaging included. Evaluation is off; the first rounds are warm-up and not timed. Data are random numbers.

- `cnn`: the paper's network for SVHN, 273,706 parameters; 100 clients of 500 images, 10 per round, 10 steps of 128.
- `softmax`: softmax regression 784→10; 1000 clients of 100 samples, 100 per round, 5 steps of 20.

"""
NOTES = """
Median (lowest to highest). Engines ran in turn, each in a process of its own, and again in every repetition; a ratio
is to the plain loop of the same repetition. Threads are torch's in each process, the faster setting on two cores.

- `plain`: a PyTorch loop over the clients, one model, one optimizer, one process. Two threads do not speed up steps
  as small as softmax regression's, so there it has one core.
- `flower`: the Ray backend of Flower's simulation engine, one worker per core, its `FedAvg` strategy.
- `pfl`: its `FederatedAveraging` in its `SimulatedBackend`, in one process. `pfl-2`: the same in two processes, joined
  by `torch.distributed`; it uses both cores where the plain loop uses one.
"""


@dataclass(frozen=True)
class Measurement:
    engine: str
    workload: str
    repetition: int
    rate: float
    processes: str
    versions: dict[str, str]
    others: float  # share of the processors that other programs took

    @classmethod
    def of(cls, engine: str, repetition: int, line: dict[str, Any], others: float) -> Measurement:
        processes = f"{line.get('processes', 1)} × {line.get('threads', '?')}"
        rate = float(line["client_steps_per_s"])
        return cls(engine, line["workload"], repetition, rate, processes, line.get("versions", {}), others)

    def __str__(self) -> str:
        return f"{self.repetition + 1}  {self.workload:8} {self.engine:8} {self.rate:10,.1f} client-steps/s"


def write(path: Path, found: list[Measurement], failures: list[str], command: str) -> None:
    repetitions = max(m.repetition for m in found) + 1
    facts = [
        f"- Date: {datetime.date.today()}",
        f"- Machine: {processor()}, {os.cpu_count()} cores, {platform.system()}",
        f"- Versions: {versions(found)}",
        f"- Other programs took at most {max(m.others for m in found):.0%} of the processors during a run",
        f"- Command: `{command}` ({repetitions} repetition{'s' * (repetitions > 1)})",
        *(f"- Failed: {failure}" for failure in failures),
    ]
    path.write_text(HEAD + "\n".join(facts) + "\n\n" + table(found) + NOTES)


def table(found: list[Measurement]) -> str:
    plain = {(m.workload, m.repetition): m.rate for m in found if m.engine == "plain"}
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for m in found:
        groups.setdefault((m.workload, m.engine), []).append(m)
    rows = [
        "| workload | engine | processes × threads | client-steps/s | ratio to plain |",
        "|---|---|---|---|---|",
    ]
    for (workload, engine), group in sorted(groups.items(), key=lambda item: item[0][0]):  # stable: engines in turn
        rates = [m.rate for m in group]
        ratios = [m.rate / plain[key] for m in group if (key := (m.workload, m.repetition)) in plain]
        places = 1 if median(rates) < 100 else 0
        cells = [workload, engine, group[0].processes, spread(rates, places), spread(ratios, 2)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def spread(values: list[float], places: int) -> str:
    if not values:
        return "?"
    low, middle, high = (f"{f(values):,.{places}f}" for f in (min, median, max))
    return f"{middle} ({low} to {high})" if len(values) > 1 else middle


def versions(found: list[Measurement]) -> str:
    """Every version that was reported, once."""
    every = {f"{name} {version}": None for m in found for name, version in m.versions.items()}
    return ", ".join(every)


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
