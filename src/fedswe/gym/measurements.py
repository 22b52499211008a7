"""What is kept of a run: scores of each served model, also by client, and how they grew. The directory of a scale:

measurements.parquet   a row per setting, rule, trial, seed and served model; all columns are texts
work/SETTING/RUN.csv   those of one run, until they are put into the table
work/SETTING/RUN/      the run directory while the run is going on
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from fedswe.errors import FedsweError, require
from fedswe.grid.store import Cell, Store
from fedswe.gym.client_facts import accuracy_by_client, client_facts
from fedswe.gym.trial import Trial
from fedswe.results.files import Claim, write_whole
from fedswe.results.history import divergence
from fedswe.results.run_directory import RunDirectory
from fedswe.results.table import append, select

FILE = "measurements.parquet"
_words = BeforeValidator(lambda value: value.split() if isinstance(value, str) else value)
TRIAL = tuple(f.name for f in fields(Trial))
KEY = ("setting", "rule", *TRIAL, "seed")  # of a run
Counts = Annotated[tuple[int, ...], _words]
Numbers = Annotated[tuple[float, ...], _words]


@dataclass(frozen=True)
class Measured:
    """One served model of one run. Accuracies are means over the last rounds, those by client of the last model."""

    rule: str
    rate: float
    server_rate: float
    momentum: float
    warmup: float
    schedule: str
    seed: int
    output: str
    held_out: float
    test: float
    diverged: bool
    worst_tenth: float  # the tenth of the clients with the lowest accuracy
    rare: float  # the tenth of the clients that were available least, without those that never were
    never: float  # clients that were never available; NaN: there are none
    correlation: float  # of availability and accuracy over clients; NaN where either is the same for all
    curve: Numbers  # test accuracy at the evaluations of the run
    rounds: Counts  # of these evaluations
    settings: str  # digest of everything but rule, trial, seed and arithmetic
    source: str  # digest of the files of a rule that is not built in; empty: it is
    arithmetic: str  # kind of device and precision: results depend on them by rounding

    @property
    def trial(self) -> Trial:
        return Trial(**{name: getattr(self, name) for name in TRIAL})


def measure(cell: Cell, directory: RunDirectory) -> list[Measured]:
    """The served models of a run that has ended."""
    experiment = cell.experiment
    history, models, found = directory.history(), directory.models(), client_facts(experiment)
    curve = [row for row in history.rows if row["round"] % experiment.evaluate.every == 0]
    common: dict[str, Any] = {name: str(cell.notes[name]) for name in ("rule", "settings", "source", "arithmetic")} | {
        **{name: cell.notes[name] for name in TRIAL},
        "seed": experiment.seed,
        "rounds": tuple(int(row["round"]) for row in curve),
    }
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
    """Scores with five digits, the rate with all: it is a part of a name."""
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
        notes = cell.notes
        run = (Trial(**{name: notes[name] for name in TRIAL}), cell.experiment.seed, notes["source"])
        return self._result(cell).is_file() or any(
            (row.trial, row.seed, row.source) == run for row in self._published(notes["setting"]).get(notes["rule"], [])
        )

    def keep(self, cell: Cell) -> None:
        rows = as_texts(measure(cell, RunDirectory(self.work(cell))))
        write_whole(self._result(cell), rows.to_csv(index=False))
        self.discard(cell)

    def table(self, setting: str, settings: str) -> dict[str, list[Measured]]:
        """The measurements of a setting by rule, published or not; refuses those of other settings than the digest's.

        Without a digest, which needs the trace of the setting, they must only agree with each other.
        """
        found = {rule: list(rows) for rule, rows in self._published(setting).items()}
        for file in sorted((self.path / "work" / setting).glob("*.csv")):
            for row in _rows_of(file):
                found.setdefault(row.rule, []).append(row)
        digests = {row.settings for rows in found.values() for row in rows}
        require(
            len(digests) <= 1 and (not settings or digests <= {settings}),
            f"{setting} in {self.path / FILE} was measured with other settings: delete it, or choose another --out",
        )
        return found

    def _published(self, setting: str) -> dict[str, list[Measured]]:
        file = self.path / FILE
        return _tables(file, file.stat().st_mtime_ns).get(setting, {}) if file.is_file() else {}

    def publish(self, setting: str, settings: str) -> None:
        """Put the measurements of all runs that have ended into the table."""
        folder = self.path / "work" / setting
        if not any(folder.glob("*.csv")):
            return
        claim = Claim(self.path / "work" / "table.lock", wait=True)
        try:
            files = sorted(folder.glob("*.csv"))
            rows = pd.concat([_texts_of(file) for file in files])
            self.table(setting, settings)  # refuses those of other settings
            append(self.path / FILE, rows.assign(setting=setting), KEY)
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


def _texts_of(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)


@lru_cache(maxsize=1 << 14)
def _rows_of(file: Path) -> list[Measured]:
    """Of one run, whose file is written once."""
    return from_texts(_texts_of(file), file)
