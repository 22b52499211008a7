"""One page about devices: who is online when, how much each counts, and the evidence for a rule. It runs no script."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, PackageLoader

from fedswe import __version__
from fedswe.algorithms import FedAvg, FedSWE
from fedswe.analysis.description import Described, duration, percent
from fedswe.analysis.weights import client_weights
from fedswe.comparison.labels import labelled
from fedswe.errors import require
from fedswe.gym.advice import FEATURES, Advice
from fedswe.results.files import write_whole

_SHOWN, _COLUMNS, _NAMED = 60, 480, 12  # devices, moments, and up to how many devices their names are shown
_LENGTHS = (60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0)  # seconds, between the bars


def check_page(file: Path | None) -> None:
    if file is not None:
        require(file.suffix in (".html", ".htm"), f"--out {file}: the name must end in .html")
        require(file.parent.is_dir(), f"cannot write {file}: there is no folder {file.parent}")


def write_devices(
    file: Path, given: Described, values: Mapping[str, Any], summary: Mapping[str, str], advice: Advice
) -> None:
    found, record = given.statistics, given.record
    order = np.argsort(np.nan_to_num(found.share), kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), _SHOWN)).astype(int))][::-1]
    every = -(-record.rounds // _COLUMNS)
    there, seen = record.available[::every, shown].T, record.seen[::every, shown].T
    rows = [
        {
            "name": given.client(i).removeprefix("device "),
            "share": percent(found.share[i]),
            "there": _path(a),
            "unseen": _path(~b),
        }
        for i, a, b in zip(shown.tolist(), there, seen, strict=True)
    ]
    rules = {"FedAvg": FedAvg(), f"FedSWE, k = {FedSWE().k:g}": FedSWE()}
    rules[f"{advice.rule}, the rule to start with"] = labelled({}, advice.rule).algorithm
    weights = []
    for name, rule in rules.items():
        of, said = client_weights(rule, record.available)
        ends = "" if of is None else f"{of[found.share > 0].min():.2g} to {of.max():.3g} times the fair weight"
        weights.append(
            {
                "name": name,
                "bars": [] if of is None else of[shown].tolist(),
                "ends": ends,
                "said": ": ".join(filter(None, (ends, said))),
            }
        )
    log = given.seconds
    lengths = []
    for title in ("sessions", "outages"):
        counts, labels = _histogram(getattr(found, title)) if log is None else _in_seconds(getattr(log, title))
        lengths.append({"title": title, "bars": counts, "labels": labels})
    evidence = []
    for name, (_, unit) in FEATURES.items():
        both = advice.here[name], advice.there[name]
        shape = math.exp if name.endswith("logarithm") else float
        texts = (f"{shape(value):.3g}" for value in both)
        evidence.append((name.removesuffix(", logarithm"), *texts, f"{abs(both[0] - both[1]) / unit:.1f}"))
    environment = Environment(loader=PackageLoader("fedswe.report", "."), autoescape=True)
    page = environment.get_template("devices.html").render(
        version=__version__, given=given, values=values, summary=summary, advice=advice, rows=rows, every=every,
        named=record.m <= _NAMED, moments=_ticks(given), hours=[] if log is None else log.by_hour.tolist(),
        lengths=lengths, weights=weights, top=max([1.0, *(bar for of in weights for bar in of["bars"])]),
        evidence=evidence, columns=there.shape[1],
    )  # fmt: skip
    write_whole(file, page)


def _path(there: npt.NDArray[np.bool_]) -> str:
    """A rectangle for each time in which it is true, as the path of a row of height 1."""
    edges = np.flatnonzero(np.diff(np.pad(there.astype(np.int8), 1))).reshape(-1, 2).tolist()
    return "".join(f"M{a} 0h{b - a}v1h{a - b}z" for a, b in edges)


def _ticks(given: Described) -> list[str]:
    """The times at which the strips begin, are half over and end."""
    log, rounds = given.seconds, given.record.rounds
    if log is None:
        return [f"round {t}" for t in (0, rounds // 2, rounds)]
    moments = (log.start, (log.start + log.end) / 2, log.end)
    if given.dated:
        return [f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC" for moment in moments]
    return [duration(moment) if moment > 0 else f"{moment:g} s" for moment in moments]


def _in_seconds(lengths: npt.NDArray[np.float64]) -> tuple[list[int], list[str]]:
    counts = np.histogram(lengths, [0.0, *_LENGTHS, math.inf])[0].tolist()
    return counts, [*(f"< {duration(length)}" for length in _LENGTHS), "more"]


def _histogram(counts: npt.NDArray[np.int64]) -> tuple[list[int], list[str]]:
    """Numbers by length in rounds, between powers of two."""
    edges = [2**power for power in range(len(counts).bit_length())]
    found = [int(counts[a : 2 * a].sum()) for a in edges]
    return found, [f"{a}" if a == 1 else f"{a}-{2 * a - 1}" for a in edges]
