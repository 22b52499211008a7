"""fedswe bench."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import get_args

from rich.console import Console
from rich.table import Table

from fedswe.benchmark import Result, measure, workloads
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import device_named
from fedswe.tasks.problem import Precision

_console = Console(highlight=False, soft_wrap=True)


def bench_command(names: str, device: str, precision: str, repetitions: int, seconds: float, as_json: bool) -> None:
    chosen = [name for name in names.split(",") if name]
    unknown = [name for name in chosen if name not in ("cnn", "softmax")]
    require(chosen and not unknown, f"--workloads must be cnn, softmax or both, not {names!r}")
    require(repetitions >= 1, f"--repetitions must be at least 1, not {repetitions}")
    require(seconds > 0, f"--seconds must be positive, not {seconds:g}")
    device_named(device)
    wanted = precision or ("bf16" if device.startswith("cuda") else "fp32")
    for value in get_args(Precision):
        if value == wanted:
            results = [measure(w, device, value, repetitions, seconds) for w in workloads(device, chosen)]
            break
    else:
        raise FedsweError(f"--precision must be one of {', '.join(get_args(Precision))}, not {precision!r}")
    if as_json:
        for result in results:
            print(json.dumps({"peer": "fedswe", **asdict(result)}))
        return
    _print(results)


def _print(results: list[Result]) -> None:
    table = Table(title="client-steps per second", title_justify="left")
    columns = (
        "workload",
        "clients at once",
        "fedswe",
        "plain loop",
        "ratio",
        "TFLOP/s",
        "of ceiling",
        "peak GB",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "workload" else "right")
    for r in results:
        speeds = (f"{r.client_steps_per_s:,.0f}", f"{r.plain_steps_per_s:,.0f}", f"{r.ratio:.1f}")
        share = (f"{r.tflops:.3g}", f"{100 * r.share_of_ceiling:.0f} %", f"{r.peak_memory_gb:.2f}")
        table.add_row(r.workload, str(r.per_round), *speeds, *share)
    _console.print(table)
    where = f"{results[0].device}, {results[0].precision}, {results[0].threads} threads"
    _console.print(f"{where}; plain loop and fedswe measured in turn, medians")
