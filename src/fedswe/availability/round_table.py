"""Tables of numbers, a row per round and a column per client, from files of several formats and from arrays."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.availability.schedule import Bools, Floats
from fedswe.availability.text_file import TextFile, existing, is_parquet, open_text, read_parquet, reason
from fedswe.errors import FedsweError, require

Orient = Literal["", "rounds", "clients"]

_TRUTH = {"true": 1.0, "false": 0.0}
_INDEX_NAMES = {"", "index", "round", "t", "time", "unnamed: 0"}
_DATE = re.compile(r"\d+[-/.]\d+[-/.]\d+|\d:\d\d")


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers, and where they were written."""

    values: Floats
    name: str  # the file, or what the array is called
    place: Callable[[int], str] = "row {}, counted from 0".format  # where a row is written, for messages
    clients_in_rows: bool = False  # where it was written

    def oriented(self, orient: Orient) -> Table:
        if orient != "clients":
            return self
        return Table(self.values.T.copy(), self.name, self.place, clients_in_rows=True)

    def require_everywhere(self, legal: Bools, rule: str) -> None:
        """Refuse the table, with the first value that is not legal and its place."""
        if not legal.all():
            row, column = (int(i) for i in np.argwhere(~legal)[0])
            place = self.place(column if self.clients_in_rows else row)
            raise FedsweError(f"{self.name} {rule}, found {self.values[row, column]:g} ({place})")

    def require_clients(self, m: int) -> None:
        rows, found = self.values.shape
        turned = '; set availability.orient = "clients" if its rows are clients' if rows == m else ""
        require(found == m, f"{self.name} has {found} columns for {m} clients: give one column per client{turned}")


def from_array(array: Any, name: str, orient: Orient = "") -> Table:
    """A table from a numpy array, a torch tensor, nested lists or a data frame."""
    if isinstance(array, pd.DataFrame):
        _require_rounds(array.columns, array.index, name, orient)
    if hasattr(array, "to_numpy"):
        array = array.to_numpy()
    elif hasattr(array, "detach"):  # a tensor, perhaps on a GPU
        array = array.detach().cpu().double().numpy()
    try:
        require(not np.iscomplexobj(array), f"{name} holds complex numbers")
        values = np.array(array, dtype=np.float64)
    except FedsweError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise FedsweError(f"{name} is not a table of numbers, rows of equal length ({reason(error)})") from None
    require(
        values.ndim == 2,
        f"{name} must have two dimensions, a row per round and a column per client, not the shape {values.shape}",
    )
    require(values.size, f"{name} is empty")
    return Table(values, name).oriented(orient)


def read(path: str, key: str, array: str, array_key: str, orient: Orient) -> Table:
    """A table from a text file, .npy, .npz or Parquet, named by the configuration key `key`.

    `array` names the array of an .npz file with several; it is given by `array_key`.
    """
    if path.lower().endswith((".npy", ".npz")):
        return from_array(_numpy_file(path, key, array, array_key), f"{key}: {path}", orient)
    if is_parquet(path):
        return from_array(read_parquet(path, key), f"{key}: {path}", orient)
    return _read_text(path, key, orient)


def _numpy_file(path: str, key: str, array: str, array_key: str) -> Any:
    existing(path, key)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            names = loaded.files
            chosen = array or (names[0] if len(names) == 1 else "")
            if chosen not in names:
                wanted = f"has no array {chosen}" if chosen else "has several arrays"
                raise FedsweError(f"{key}: {path} {wanted}: choose one of {', '.join(names)} with {array_key}")
            return loaded[chosen]
    except FedsweError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        # numpy takes any other file for pickled objects, and advises to load them.
        why = "not a numpy file, or one with Python objects" if "pickle" in str(error) else reason(error)
        raise FedsweError(f"{key}: {path} cannot be read as a numpy file ({why})") from None


def _require_rounds(header: Iterable[Any], names: Iterable[Any], name: str, orient: Orient) -> None:
    """Refuse a table whose columns are counted as rounds are, while its rows have names as clients have."""
    if orient or not _counts([_number(str(cell)) for cell in header]):
        return
    first = next((str(cell) for cell in names if _number(str(cell)) is None and not _DATE.search(str(cell))), None)
    require(
        first is None,
        f"{name}: the columns are counted and a row is called {str(first)[:40]!r}: set availability.orient = "
        '"clients" if the rows are clients, "rounds" if they are rounds',
    )


# text ----------------------------------------------------------------------------------------------------
def _read_text(path: str, key: str, orient: Orient) -> Table:
    text = open_text(path, key)
    try:
        number, first = next(text.lines(), (0, []))
        header = _is_header(first)
        place = partial(_line, text, number if header else 0)
        frame = text.frame(number if header else 0, comment="#")
        names, width = frame[0], frame.shape[1]
        # Below a header, the first column may also hold names of the rows, such as dates.
        named = header and (first[0].lower() in _INDEX_NAMES or width == len(first) + 1 or _number(names[0]) is None)
        index = named or (width > 1 and _counts([_number(cell) for cell in names]))
        if header and index:
            _require_rounds(first[len(first) - width + 1 :], names, path, orient)
        values = _values(frame.to_numpy(object)[:, int(index) :], place)
    except FedsweError:
        raise
    except pd.errors.EmptyDataError:
        raise FedsweError(f"{key}: {path} is empty") from None
    except (ValueError, OSError) as error:
        raise FedsweError(f"{key}: {path} is not a CSV of numbers, rows of equal length ({reason(error)})") from None
    require(values.size, f"{key}: {path} is empty")
    return Table(values, path, place).oriented(orient)


def _line(text: TextFile, skipped: int, row: int) -> str:
    return text.line_of(row, skipped)


def _values(cells: npt.NDArray[Any], place: Callable[[int], str]) -> Floats:
    """Numbers and truth values; ValueError with the place of anything else."""
    with suppress(ValueError):
        return cells.astype(np.float64)
    for i, row in enumerate(cells):
        wrong = next((cell for cell in row if _number(cell) is None), None)
        if wrong is not None:
            raise ValueError(f"{place(i)}: {wrong[:40]!r} is not a number")
    return np.array([[_number(cell) for cell in row] for row in cells], dtype=np.float64)


def _is_header(cells: Sequence[str]) -> bool:
    """Whether no cell can be a value: names, numbers of clients, or 0, 1, 2, ... as data frames write them."""
    numbers = [_number(cell) for cell in cells]
    if numbers and numbers[0] is None and _counts(numbers[1:]):
        return True
    cells, numbers = (cells[1:], numbers[1:]) if cells and not cells[0] else (cells, numbers)
    names = bool(cells) and len(set(cells)) == len(cells)
    return _counts(numbers) or (names and all(n is None or (n > 1 and n.is_integer()) for n in numbers))


def _counts(numbers: Sequence[float | None]) -> bool:
    """Whether the numbers are 0, 1, 2, ... or 1, 2, ...: with a 2 among them they are no values."""
    first, n = next(iter(numbers), None), len(numbers)
    return first in (0, 1) and first + n > 2 and list(numbers) == list(range(int(first), int(first) + n))


def _number(cell: str) -> float | None:
    try:
        return _TRUTH[cell.lower()] if cell.lower() in _TRUTH else float(cell)
    except ValueError:
        return None
