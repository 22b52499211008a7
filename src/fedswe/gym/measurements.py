"""What is kept of a run: scores of each served model, also by client, and how they grew. The directory of a scale:

measurements.parquet   a row per setting, rule, rate, seed and served model; all columns are texts
work/SETTING/RUN.csv   those of one run, until they are put into the table
work/SETTING/RUN/      the run directory while the run is going on
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from fedswe.errors import FedsweError, require
from fedswe.grid.store import Cell, Store
from fedswe.gym.client_facts import accuracy_by_client, client_facts
from fedswe.results.files import Claim, write_whole
from fedswe.results.history import divergence
from fedswe.results.run_directory import RunDirectory
from fedswe.results.table import append, select

FILE = "measurements.parquet"
_words = BeforeValidator(lambda value: value.split() if isinstance(value, str) else value)
Counts = Annotated[tuple[int, ...], _words]
Numbers = Annotated[tuple[float, ...], _words]


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
    curve: Numbers  # test accuracy at the evaluations of the run
    rounds: Counts  # of these evaluations
    settings: str  # digest of everything but rule, rate, seed and arithmetic
    source: str  # digest of the files of a rule that is not built in; empty: it is
    arithmetic: str  # kind of device and precision: results depend on them by rounding
    seconds: Numbers = ()  # simulated, of the evaluations; none without a clock
    wasted: float = math.nan  # the share of the clients' time that was lost; NaN without a clock


def measure(cell: Cell, directory: RunDirectory) -> list[Measured]:
    """The served models of a run that has ended."""
    experiment = cell.experiment
    history, models, found = directory.history(), directory.models(), client_facts(experiment)
    curve, last = [row for row in history.rows if row["round"] % experiment.evaluate.every == 0], history.last
    timed = "simulated_seconds" in last
    common: dict[str, Any] = {name: str(cell.notes[name]) for name in ("rule", "settings", "source", "arithmetic")} | {
        "rate": experiment.local.lr,
        "seed": experiment.seed,
        "reports": int(last["total_reported"]) if timed else found.reports(experiment.algorithm.seats()),
        "rounds": tuple(int(row["round"]) for row in curve),
    }
    if timed:
        common["seconds"] = tuple(row["simulated_seconds"] for row in curve)
        common["wasted"] = last["wasted_seconds"] / last["work_seconds"] if last["work_seconds"] else math.nan
    rows = []
    for output, x in models.vectors.items():
        held_out, test = (
            history.tail_mean(f"{output}_{part}_accuracy", experiment.evaluate.tail) for part in ("held_out", "test")
        )
        lost = bool(divergence(history, f"{output}_", models.vectors)) or not math.isfinite(held_out + test)
        of_clients = found.summary(None if lost else accuracy_by_client(found.problem, x))
        accuracies = tuple(round(row[f"{output}_test_accuracy"], 4) for row in curve)
        own = {"output": output, "held_out": held_out, "test": test, "diverged": lost, "curve": accuracies}
        rows.append(Measured(**common | own | of_clients))
    return rows


# as text -------------------------------------------------------------------------------------------------
def as_texts(rows: Iterable[Measured]) -> pd.DataFrame:
    """Scores with five digits, the rate with all: it is a name."""
    return pd.DataFrame([{k: repr(v) if k == "rate" else _text(v) for k, v in asdict(row).items()} for row in rows])


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_text, value))
    return f"{value:.5g}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)


def from_texts(texts: pd.DataFrame, where: object) -> list[Measured]:
    try:
        return _ROWS.validate_python([dict(zip(texts, row, strict=True)) for row in texts.to_numpy(object).tolist()])
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{first['loc'][1]}: {first['msg']}"
        raise FedsweError(f"{where} is damaged ({reason}): delete it to measure again") from None


_ROWS = TypeAdapter(list[Measured])


# in files ------------------------------------------------------------------------------------------------
class GymStore(Store):
    """`path` is the directory of one scale. The notes of a cell are those of its measurements, and its setting."""

    def _result(self, cell: Cell) -> Path:
        return self.path / "work" / f"{cell.name}.csv"

    def finished(self, cell: Cell) -> bool:
        """A rule of the user that has changed since is measured again."""
        notes, run = cell.notes, (cell.experiment.local.lr, cell.experiment.seed, cell.notes["source"])
        return self._result(cell).is_file() or any(
            (row.rate, row.seed, row.source) == run
            for row in self.table(notes["setting"], notes["settings"]).get(notes["rule"], [])
        )

    def keep(self, cell: Cell) -> None:
        rows = as_texts(measure(cell, RunDirectory(self.work(cell))))
        write_whole(self._result(cell), rows.to_csv(index=False))
        self.discard(cell)

    def table(self, setting: str, settings: str) -> dict[str, list[Measured]]:
        """The published measurements of a setting by rule; refuses those of other settings than the digest's.

        Without a digest, which needs the trace of the setting, they must only agree with each other.
        """
        file = self.path / FILE
        found = _tables(file, file.stat().st_mtime_ns).get(setting, {}) if file.is_file() else {}
        digests = {row.settings for rows in found.values() for row in rows}
        require(
            len(digests) <= 1 and (not settings or digests <= {settings}),
            f"{setting} in {file} was measured with other settings: delete the file, or choose another --out",
        )
        return found

    def publish(self, setting: str, settings: str) -> None:
        """Put the measurements of all runs that have ended into the table."""
        folder = self.path / "work" / setting
        if not any(folder.glob("*.csv")):
            return
        claim = Claim(self.path / "work" / "table.lock", wait=True)
        try:
            files = sorted(folder.glob("*.csv"))
            rows = pd.concat([pd.read_csv(file, dtype=str, keep_default_na=False) for file in files])
            self.table(setting, settings)  # refuses those of other settings
            append(self.path / FILE, rows.assign(setting=setting), ["setting", "rule", "rate", "seed"])
            for file in files:
                file.unlink()
        finally:
            claim.release()


@lru_cache(maxsize=4)
def _tables(file: Path, changed: int) -> dict[str, dict[str, list[Measured]]]:
    """The rows by setting and rule."""
    texts, found = select(file).astype(object), dict[str, dict[str, list[Measured]]]()
    for setting, row in zip(texts["setting"], from_texts(texts, file), strict=True):
        found.setdefault(setting, {}).setdefault(row.rule, []).append(row)
    return found
