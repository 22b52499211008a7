"""The directory of one scale of a gym.

measurements.parquet   a row per setting, rule, rate, seed and served model, in the words of measured.py
work/SETTING/RUN.csv   those of one run, until they are put into the table of its setting
work/SETTING/RUN/      the run directory while the run is going on
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pandas as pd

from fedswe.errors import require
from fedswe.grid.cell import Cell
from fedswe.grid.store import WorkStore
from fedswe.gym.measured import Measured, from_rows, measure, to_csv
from fedswe.results.files import write_whole
from fedswe.results.locks import Claim
from fedswe.results.run_directory import RunDirectory
from fedswe.results.table import append, select

Key = tuple[str, float, int]  # rule, rate, seed
FILE = "measurements.parquet"


@dataclass(frozen=True)
class GymStore(WorkStore):
    """`path` is the directory of one scale. The notes of a cell are those of its measurements, and its setting."""

    def _result(self, cell: Cell) -> Path:
        return self.path / "work" / f"{cell.name}.csv"

    def finished(self, cell: Cell) -> bool:
        """A rule of the user that has changed since is measured again."""
        if self._result(cell).is_file():
            return True
        notes = {name: str(value) for name, value in cell.notes.items()}
        found = self.table(notes["setting"], notes["settings"])
        rows = found.get((notes["rule"], cell.experiment.local.lr, cell.experiment.seed), [])
        return any(row.source == notes["source"] for row in rows)

    def keep(self, cell: Cell) -> None:
        write_whole(self._result(cell), to_csv(measure(cell, RunDirectory(self.work(cell)))))
        self.discard(cell)

    def table(self, setting: str, settings: str) -> dict[Key, list[Measured]]:
        """The published measurements of a setting by run; refuses those of other settings than the digest's.

        Without a digest, which needs the trace of the setting, they must only agree with each other.
        """
        file = self.path / FILE
        try:
            changed = file.stat().st_mtime_ns
        except OSError:
            return {}
        found = _read_table(file, changed, setting)
        digests = {row.settings for rows in found.values() for row in rows}
        require(
            len(digests) <= 1 and (not settings or digests <= {settings}),
            f"{setting} in {file} was measured with other settings: delete the file, or choose another --out",
        )
        return found

    def publish(self, setting: str, settings: str) -> None:
        """Put the measurements of all runs that have ended into the table of their setting."""
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


def by_run(rows: list[Measured]) -> dict[Key, list[Measured]]:
    found: dict[Key, list[Measured]] = {}
    for row in rows:
        found.setdefault((row.rule, row.rate, row.seed), []).append(row)
    return found


@lru_cache(maxsize=256)
def _read_table(file: Path, changed: int, setting: str) -> dict[Key, list[Measured]]:
    rows = _read_file(file, changed).get(setting, [])
    found = by_run(from_rows(rows, file))
    return {key: found[key] for key in sorted(found)}


@lru_cache(maxsize=4)
def _read_file(file: Path, changed: int) -> dict[str, list[dict[str, str]]]:
    """The rows by setting."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in select(file).astype(object).to_dict("records"):
        found.setdefault(row.pop("setting"), []).append(row)
    return found
