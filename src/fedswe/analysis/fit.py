"""A generator fitted to a trace, and how far its clients are like those of the trace."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from fedswe.analysis.description import Described
from fedswe.analysis.report import Report, figure_of, frame, short
from fedswe.availability import DailyMarkov
from fedswe.availability.daily_fit import check_fit, edges, fit, generated, rhythm
from fedswe.availability.statistics import DAY, QUANTILES, Record, Statistics, gini, quantile

CLIENTS = 1000  # generated to check a fit
_SEED = 20_000  # of the check; the fit draws with other seeds
_EDGES = 0.1  # how much more of the unavailable time may lie before the first and after the last session
_FEW = 30  # clients or sessions, below which the fit is a guess
_DAYS = 3  # of which a daily rhythm can be told from chance


def fit_trace(given: Described, round_seconds: float) -> tuple[DailyMarkov, Report]:
    """Fit, generate, compare. The statistics are those of the rounds; lengths are in rounds."""
    record = given.record
    check_fit(record, given.name)
    start = 0.0 if given.seconds is None else given.seconds.start % DAY / 3600
    model = fit(record, round_seconds, start)
    copy = generated(model, record, CLIENTS, _SEED)
    table = compared(record, copy, round_seconds)
    notes = [*given.notes, *_verdict(record, copy, table, round_seconds)]
    values = {
        "name": given.name, "clients": record.m, "rounds": record.rounds, "round_seconds": round_seconds,
        "generated_clients": CLIENTS, "availability": {"name": "daily_markov", **vars(model)}, "statistics": table,
        "notes": notes,
    }  # fmt: skip
    title = f"{given.name}: {record.m} clients, {CLIENTS} generated; lengths in rounds of {round_seconds:g} s"
    return model, Report(values, figure_of(), (0, 0), {title: table}, notes)


# statistics ------------------------------------------------------------------------------------------------
def _length(name: str, level: float) -> Callable[[Statistics], float]:
    def found(of: Statistics) -> float:
        counts = getattr(of, name)
        return float(quantile(counts, level)) if counts.any() else math.nan

    return found


def _share(level: float) -> Callable[[Statistics], float]:
    return lambda of: float(np.nanquantile(of.share, level))


def _never(of: Statistics) -> float:
    return float((of.share[np.isfinite(of.share)] == 0).mean())


_STAYS = "P(A | A)"
# The statistic, and the difference that counts as none: absolute, or as a share of the trace's value if that is more.
_STATISTICS: list[tuple[str, Callable[[Statistics], float], float, float]] = [
    ("mean availability", lambda of: float(np.nanmean(of.share)), 0.01, 0.1),
    *((f"availability of a client, {100 * level:g} %", _share(level), 0.03, 0.15) for level in QUANTILES),
    ("never available, share of clients", _never, 0.02, 0.1),
    ("Gini index over clients", lambda of: gini(of.share), 0.03, 0.1),
    (_STAYS, lambda of: of.stays, 0.005, 0.15),  # of P(not A | A)
    ("P(A | not A)", lambda of: of.returns, 0.005, 0.15),
    ("session, median", _length("sessions", 0.5), 1.0, 0.25),
    ("session, 95 %", _length("sessions", 0.95), 2.0, 0.25),
    ("outage between sessions, median", _length("outages", 0.5), 1.0, 0.25),
    ("outage between sessions, 95 %", _length("outages", 0.95), 2.0, 0.25),
    ("echo, 95 %", lambda of: float(of.echo_quantiles((0.95,))[0]), 2.0, 0.25),
    ("echo, 99 %", lambda of: float(of.echo_quantiles((0.99,))[0]), 2.0, 0.25),
]


def compared(trace: Record, copy: Record, round_seconds: float) -> pd.DataFrame:
    ours, theirs = Statistics(trace), Statistics(copy)
    rows = []
    for what, measure, absolute, relative in _STATISTICS:
        value = measure(ours)
        scale = abs(np.nan_to_num(1 - value if what == _STAYS else value))
        rows.append((what, value, measure(theirs), max(absolute, relative * scale)))
    daily = [rhythm(record, round_seconds)[0] for record in (trace, copy)]
    rows.append(("daily amplitude, relative to the mean", daily[0], daily[1], 0.05))
    return frame([{"statistic": what, "trace": a, "generated": b, "met": met(a, b, most)} for what, a, b, most in rows])


def met(trace: float, generated: float, tolerance: float) -> bool:
    """A statistic that the trace does not have is not missed."""
    return bool(math.isnan(trace) or abs(trace - generated) <= tolerance + 1e-12)


def _verdict(trace: Record, copy: Record, table: pd.DataFrame, round_seconds: float) -> list[str]:
    notes = [
        f"not met: {row.statistic}: {short(row.trace)} in the trace, {short(row.generated)} generated"
        for row in table.itertuples()
        if not row.met
    ] or ["all statistics are met"]
    at_edges = edges(trace), edges(copy)
    if at_edges[0] > at_edges[1] + _EDGES:
        notes.append(
            f"{at_edges[0]:.0%} of the unavailable rounds lie before a client's first session or after its last, "
            f"{at_edges[1]:.0%} of those generated: devices may have been observed for a part of the time only. Say "
            "when with --observed; else the model takes the rest as long outages"
        )
    sessions = int(Statistics(trace).sessions.sum())
    if min(trace.m, sessions) < _FEW:
        notes.append(f"{trace.m} clients with {sessions} sessions in all are few: take the parameters as a guess")
    if trace.rounds * round_seconds < _DAYS * DAY:
        notes.append("the trace is shorter than three days: its daily rhythm cannot be told from chance")
    return notes
