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
from fedswe.gym.advice import Advice
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
    names, shares = [given.client(i) for i in shown], [percent(found.share[i]) for i in shown]
    own = labelled({}, advice.rule).algorithm
    rules = {"FedAvg": FedAvg(), f"FedSWE, k = {FedSWE().k:g}": FedSWE(), f"{advice.rule}, the rule to start with": own}
    weights = []
    for name, rule in rules.items():
        of, said = client_weights(rule, record.available)
        ends = [] if of is None else [f"{of[found.share > 0].min():.2f} to {of.max():.2f} times the fair weight"]
        weights.append((name, [] if of is None else of[shown].tolist(), "; ".join([*ends, *filter(None, [said])])))
    lengths = {} if log is None else {"sessions": log.sessions, "outages": log.outages}
    environment = Environment(loader=PackageLoader("fedswe.report", "."), autoescape=True)
    page = environment.get_template("devices.html").render(
        version=__version__, given=given, values=values, summary=summary, advice=advice, every=every, weights=weights,
        rows=list(zip(names, shares, map(_path, there), map(_path, ~seen), strict=True)), columns=there.shape[1],
        named=record.m <= _NAMED, moments=_moments(given), hours=[] if log is None else log.by_hour.tolist(),
        lengths={name: np.histogram(of, [0, *_LENGTHS, math.inf])[0].tolist() for name, of in lengths.items()},
        edges=[*(f"< {duration(length)}" for length in _LENGTHS), "more"], evidence=advice.compared(),
        top=max([1.0, *(bar for _, bars, _ in weights for bar in bars)]),
    )  # fmt: skip
    write_whole(file, page)


def _path(there: npt.NDArray[np.bool_]) -> str:
    """A rectangle for each time in which it is true, as the path of a row of height 1."""
    edges = np.flatnonzero(np.diff(np.pad(there.astype(np.int8), 1))).reshape(-1, 2).tolist()
    return "".join(f"M{a} 0h{b - a}v1h{a - b}z" for a, b in edges)


def _moments(given: Described) -> list[str]:
    """When the strips begin, are half over and end."""
    log, rounds = given.seconds, given.record.rounds
    if log is None:
        return [f"round {t}" for t in (0, rounds // 2, rounds)]
    moments = (log.start, (log.start + log.end) / 2, log.end)
    if given.dated:
        return [f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M}" for moment in moments]
    return [duration(moment) for moment in moments]
