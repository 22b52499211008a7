"""The record of a run: one row per evaluation."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, suggestion
from fedswe.results.display import Displayed

if TYPE_CHECKING:
    import pandas as pd

    from fedswe.engine.base import Attendance

Row = dict[str, float]
GROWTH = 100.0  # a loss that is so many times the initial one: the run diverged


@dataclass(frozen=True)
class Tally:
    """Availability and echoes since the last evaluation."""

    available: int = 0  # in the last round
    reported: int = 0  # of those, how many the algorithm let report
    echoes: int = 0  # reports since the last evaluation
    echo_sum: int = 0  # of their t - tau_i
    echo_max: int = 0

    def with_round(self, who: Attendance) -> Tally:
        return Tally(
            who.available,
            who.reported,
            self.echoes + len(who.echoes),
            self.echo_sum + int(who.echoes.sum()),
            max(self.echo_max, int(who.echoes.max(initial=0))),
        )

    def columns(self) -> Row:
        mean = self.echo_sum / self.echoes if self.echoes else 0.0
        return {
            "available": self.available,
            "reported": self.reported,
            "echo_mean": mean,
            "echo_max": self.echo_max,
        }


@dataclass(repr=False)
class History(Displayed):
    """Rows in the order of rounds; all rows have the same columns."""

    rows: list[Row] = field(default_factory=list)

    def append(self, row: Mapping[str, float]) -> None:
        """Add an evaluation; a task or column whose scores change during a run cannot be written as one table."""
        if self.rows and list(row) != self.columns:
            changed = ", ".join(sorted(set(row) ^ set(self.columns))) or "their order"
            raise FedsweError(
                f"the scores changed during the run ({changed}): return the same ones at every evaluation"
            )
        self.rows.append(dict(row))

    @property
    def columns(self) -> list[str]:
        return list(self.rows[0]) if self.rows else []

    def __getitem__(self, column: str) -> npt.NDArray[np.float64]:
        if self.rows and column not in self.rows[0]:
            raise KeyError(f"no column {column!r}: {suggestion(column, self.columns)}")
        return np.array([row[column] for row in self.rows])

    @property
    def last(self) -> Row:
        return self.rows[-1]

    def tail_mean(self, column: str, rounds: int) -> float:
        """The mean of a column over the evaluations of the last `rounds` rounds (the paper averages 50).

        A shorter run is averaged over all its rounds; the model before the first is never one of them.
        """
        before = max(self.last["round"] - rounds, 0)
        return float(np.mean([row[column] for row in self.rows if row["round"] > before]))

    def rounds_to(self, column: str, target: float, lowest: bool | None = None) -> float | None:
        """The first evaluated round in which a column has reached the target; None if none has.

        A loss, an error or a distance reaches it from above, anything else from below, unless `lowest` says which.
        """
        return self._first("round", column, target, lowest)

    def seconds_to(self, column: str, target: float, lowest: bool | None = None) -> float | None:
        """The same in simulated seconds, which a run has with clock.name = "seconds"."""
        return self._first("simulated_seconds", column, target, lowest)

    def _first(self, of: str, column: str, target: float, lowest: bool | None) -> float | None:
        values, places = self[column], self[of]
        falls = column.endswith(("loss", "error", "distance")) if lowest is None else lowest
        reached = np.flatnonzero(values <= target if falls else values >= target)
        return float(places[reached[0]]) if len(reached) else None

    def to_csv(self, digits: int = 0) -> str:
        """With all digits, or with so many significant ones."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([written(v, digits) for v in row.values()] for row in self.rows)
        return text.getvalue()

    @property
    def table(self) -> pd.DataFrame:
        """A row per evaluation, a column per score."""
        import pandas as pd  # slow to import, and runs do without it

        return pd.DataFrame(self.rows, columns=self.columns)

    def _shown(self) -> tuple[dict[str, pd.DataFrame], list[str]]:
        return {f"History of {len(self.rows)} evaluations": self.table}, []

    @classmethod
    def from_csv(cls, text: str) -> History:
        try:
            rows = list(csv.DictReader(io.StringIO(text)))
        except csv.Error as error:
            raise ValueError(str(error)) from None
        return cls([{name: _number(value) for name, value in row.items()} for row in rows])


def divergence(history: History, prefix: str = "", models: Iterable[str] = ()) -> str:
    """The first sign in the last row that the run diverged, in words; empty if there is none.

    A sign is a number that is not finite, or a loss that is finite but a hundred times the one before the first round.
    Only columns that begin with `prefix` count. Of `models`, those whose names begin with it too have columns of their
    own, which do not.
    """
    others = tuple(f"{model}_" for model in models if f"{model}_".startswith(prefix) and f"{model}_" != prefix)
    for column, last in history.last.items():
        first = history.rows[0].get(column, math.nan)
        if not column.startswith(prefix) or column.startswith(others):
            continue
        if not math.isfinite(last):
            return f"{column} is {last:g}"
        if column.endswith("loss") and last > GROWTH * first > 0:
            return f"{column} rose from {first:.3g} to {last:.3g}"
    return ""


def written(value: float, digits: int = 0) -> str:
    """A number as text, with all digits or with so many significant ones."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.{digits}g}" if digits else repr(float(value))


def _number(text: Any) -> float:
    """Counts stay whole numbers of the size that they are written with. A row that is too long or too short has no text
    here."""
    return int(text) if isinstance(text, str) and text.isdigit() and len(text) < 16 else float(text)
