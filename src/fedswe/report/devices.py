"""One page about devices: who is online when, how much each counts, and the evidence for a rule. It runs no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from fedswe.gym.advice import FEATURES, Advice
from fedswe.results.files import write_whole

_SHOWN, _COLUMNS, _NAMED = 60, 480, 12  # devices, moments, and up to how many devices their names are shown
_LENGTHS = (60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0)  # seconds, between the bars


def write_devices(
    file: Path, given: Described, values: Mapping[str, Any], summary: Sequence[tuple[str, str]], advice: Advice
) -> None:
    """The values are those of the description, the summary is what was printed of them."""
    found, record, log = given.statistics, given.record, given.seconds
    order = np.argsort(-np.nan_to_num(found.share), kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), _SHOWN)).astype(int))].tolist()
    every = -(-record.rounds // _COLUMNS)
    there, seen = record.available[::every, shown].T, record.seen[::every, shown].T
    rules = {"FedAvg": FedAvg(), f"FedSWE, k = {record.m}": FedSWE()}
    rules[f"{advice.rule}, the rule to start with"] = labelled({}, advice.rule).algorithm
    weights = [(name, *client_weights(rule, record.available)) for name, rule in rules.items()]
    environment = Environment(loader=PackageLoader("fedswe.report", "."), autoescape=True)
    page = environment.get_template("devices.html").render(
        version=__version__, given=given, log=log, values=values, summary=summary, advice=advice, features=FEATURES,
        rows=list(zip(shown, map(_path, there), map(_path, ~seen), strict=True)), columns=there.shape[1], every=every,
        named=record.m <= _NAMED, ever=found.share > 0, shown=shown, weights=weights,
        top=max([1.0, *(float(of[shown].max()) for _, of, _ in weights if of is not None)]),
        histogram=lambda lengths: np.histogram(lengths, [0, *_LENGTHS, math.inf])[0].tolist(), edges=_LENGTHS,
        exp=math.exp, percent=percent, duration=duration,
        date=lambda time: datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M"),
    )  # fmt: skip
    write_whole(file, page)


def _path(there: npt.NDArray[np.bool_]) -> str:
    """A rectangle for each time in which it is true, as the path of a row of height 1."""
    edges = np.flatnonzero(np.diff(np.pad(there.astype(np.int8), 1))).reshape(-1, 2).tolist()
    return "".join(f"M{a} 0h{b - a}v1h{a - b}z" for a, b in edges)
