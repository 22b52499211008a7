"""What is kept of a run: scores of each served model, also by client, and how they grew."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from fedswe.errors import FedsweError, require
from fedswe.grid.store import Cell
from fedswe.gym.client_facts import accuracy_by_client, client_facts
from fedswe.results.history import divergence
from fedswe.results.run_directory import RunDirectory


@dataclass(frozen=True)
class Measured:
    """One served model of one run. Accuracies are means over the last rounds, those by client of the last model."""

    rule: str
    rate: float
    seed: int
    output: str
    held_out: float
    test: float
    diverged: bool
    worst_tenth: float  # the tenth of the clients with the lowest accuracy
    rare: float  # the tenth of the clients that were available least, without those that never were
    never: float  # clients that were never available; NaN: there are none
    correlation: float  # of availability and accuracy over clients; NaN where either is the same for all
    reports: int  # of all clients and rounds
    curve: tuple[float, ...]  # test accuracy at the evaluations of the run
    rounds: tuple[int, ...]  # of these evaluations
    settings: str  # digest of everything but rule, rate, seed and arithmetic
    source: str  # digest of the files of a rule that is not built in; empty: it is
    arithmetic: str  # kind of device and precision: results depend on them by rounding
    seconds: tuple[float, ...] = ()  # simulated, of the evaluations; none without a clock
    wasted: float = math.nan  # the share of the clients' time that was lost; NaN without a clock


def measure(cell: Cell, directory: RunDirectory) -> list[Measured]:
    """The served models of a run that has ended."""
    experiment = cell.experiment
    history, models = directory.history(), directory.models()
    found = client_facts(experiment)
    rows = []
    for output, x in models.vectors.items():
        held_out, test = (
            history.tail_mean(f"{output}_{part}_accuracy", experiment.evaluate.tail) for part in ("held_out", "test")
        )
        lost = bool(divergence(history, f"{output}_", models.vectors)) or not math.isfinite(held_out + test)
        by_client = None if lost else accuracy_by_client(found.problem, x)
        curve = [row for row in history.rows if row["round"] % experiment.evaluate.every == 0]
        last = history.last
        timed = "simulated_seconds" in last
        rows.append(
            Measured(
                rule=str(cell.notes["rule"]),
                rate=experiment.local.lr,
                seed=experiment.seed,
                output=output,
                held_out=held_out,
                test=test,
                diverged=lost,
                **found.summary(by_client),
                reports=int(last["total_reported"]) if timed else found.reports(experiment.algorithm.seats()),
                curve=tuple(round(row[f"{output}_test_accuracy"], 4) for row in curve),
                rounds=tuple(int(row["round"]) for row in curve),
                settings=str(cell.notes["settings"]),
                source=str(cell.notes["source"]),
                arithmetic=str(cell.notes["arithmetic"]),
                seconds=tuple(row["simulated_seconds"] for row in curve) if timed else (),
                wasted=last["wasted_seconds"] / last["work_seconds"] if timed and last["work_seconds"] else math.nan,
            )
        )
    return rows


# as text -------------------------------------------------------------------------------------------------
_COLUMNS = [f.name for f in fields(Measured)]
_NEEDED = [f.name for f in fields(Measured) if f.default is MISSING]  # tables without the others are read too


def to_csv(rows: Iterable[Measured]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        writer.writerow(_row(row))
    return text.getvalue()


def from_csv(text: str, where: object) -> list[Measured]:
    return from_rows(list(csv.DictReader(io.StringIO(text))), where)


def from_rows(rows: list[dict[str, str]], where: object) -> list[Measured]:
    try:
        require(not rows or set(rows[0]) in (set(_COLUMNS), set(_NEEDED)), "other columns")
        return [_read(row) for row in rows]
    except (FedsweError, ValueError, TypeError, KeyError, csv.Error) as error:
        raise FedsweError(f"{where} is damaged ({error}): delete it to measure again") from None


def _written(value: Any) -> str:
    if isinstance(value, tuple | list):
        return " ".join(_written(v) for v in value)
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _row(measured: Measured) -> list[str]:
    """Scores with five digits, the rate with all: it is a name."""
    values = asdict(measured)
    return [repr(value) if name == "rate" else _written(value) for name, value in values.items()]


def _read(row: dict[str, str]) -> Measured:
    values: dict[str, Any] = {}
    for f in fields(Measured):
        if f.name not in row:
            continue
        text = row[f.name]
        if f.type == "float":
            values[f.name] = float(text)
        elif f.type == "int":
            values[f.name] = int(text)
        elif f.type == "bool":
            values[f.name] = bool(int(text))
        elif f.type == "str":
            values[f.name] = text
        else:
            number: Any = float if "float" in str(f.type) else int
            values[f.name] = tuple(number(word) for word in text.split())
    return Measured(**values)
