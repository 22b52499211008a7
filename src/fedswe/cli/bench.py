"""The command `fedswe bench`: measure the speed of local training against a plain loop."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from fedswe.cli.arguments import Device, Json, PrecisionName, precision_named
from fedswe.cli.console import RoundProgress, console, print_json, print_table, stderr
from fedswe.errors import require

_COLUMNS = ("workload", "clients at once", "fedswe", "plain loop", "ratio", "TFLOP/s", "of ceiling", "peak GB")


def bench_command(
    workloads: Annotated[str, typer.Option(help="cnn, softmax, or both")] = "cnn,softmax",
    device: Device = "cpu",
    precision: PrecisionName = "",
    repetitions: Annotated[int, typer.Option(help="How often the plain loop and fedswe are measured in turn")] = 5,
    seconds: Annotated[float, typer.Option(help="About how long each of the two is measured")] = 5.0,
    as_json: Json = False,
) -> None:
    """Measure client-steps per second against a plain PyTorch loop in the same run."""
    from fedswe import benchmark
    from fedswe.experiment.experiment import device_named

    names = [name for name in workloads.split(",") if name]
    unknown = [name for name in names if name not in ("cnn", "softmax")]
    require(names and not unknown, f"--workloads must be cnn, softmax or both, not {workloads!r}")
    require(repetitions >= 1, f"--repetitions must be at least 1, not {repetitions}")
    require(seconds > 0, f"--seconds must be positive, not {seconds:g}")
    chosen = benchmark.workloads(device_named(device).type, names)
    checked = precision_named(precision, device)
    results = []
    with RoundProgress("measurements", on=stderr) as progress:
        for i, workload in enumerate(chosen):

            def watch(done: int, note: str, before: int = i * repetitions, name: str = workload.name) -> None:
                progress(before + done, len(chosen) * repetitions, f"{name}: {note}")

            results.append(benchmark.measure(workload, device, checked, repetitions, seconds, watch))
    if as_json:
        print_json([{"peer": "fedswe", **asdict(result)} for result in results])
        return
    rows = []
    for r in results:
        speeds = (f"{r.client_steps_per_s:,.0f}", f"{r.plain_steps_per_s:,.0f}", f"{r.ratio:.1f}")
        share = (f"{r.tflops:.3g}", f"{100 * r.share_of_ceiling:.0f} %", f"{r.peak_memory_gb:.2f}")
        rows.append((r.workload, str(r.per_round), *speeds, *share))
    print_table("client-steps per second", _COLUMNS, rows, numbers=True)
    threads = ", ".join(f"{r.workload} {r.threads} and {r.plain_threads}" for r in results)
    console.print(f"{results[0].device}, {results[0].precision}; threads of fedswe and of the plain loop: {threads}")
    console.print("both were measured in turn; the repetition with the median ratio is shown")
