"""Tables of numbers, a row per round and a column per client, from files of several formats and from arrays."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np

from fedswe.availability import columns
from fedswe.availability.schedule import Bools, Floats
from fedswe.availability.text_file import TextFile, existing, open_text, reason
from fedswe.errors import FedsweError, require

_TRUTH = {"true": 1.0, "false": 0.0}
_INDEX_NAMES = {"", "index", "round", "t", "time", "unnamed: 0"}


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers, and where they were written."""

    values: Floats
    name: str  # the file, or what the array is called
    text: TextFile | None = None  # the file, where it has lines
    skipped: int = 0  # lines before the first row
    left_out: int = 0  # columns before the first client

    def place(self, row: int, column: int) -> str:
        """Where a value is written, for messages."""
        if self.text is None:
            return f"row {row}, column {column}, counted from 0"
        return f"line {self.text.line_of(row, self.skipped)}, column {column + self.left_out + 1}"

    def require_everywhere(self, legal: Bools, rule: str) -> None:
        """Refuse the table, with the first value that is not legal and its place."""
        if not legal.all():
            row, column = (int(i) for i in np.argwhere(~legal)[0])
            found = f"found {self.values[row, column]:g} ({self.place(row, column)})"
            raise FedsweError(f"{self.name} {rule}, {found}")

    def require_clients(self, m: int) -> None:
        rows, found = self.values.shape
        turned = "; transpose it" if rows == m else ""
        require(found == m, f"{self.name} has {found} columns for {m} clients: give one column per client{turned}")


def from_array(array: Any, name: str) -> Table:
    """A table from a numpy array, a torch tensor, nested lists or a data frame."""
    if columns.is_frame(array):
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
    return Table(values, name)


def read(path: str, key: str, array: str, array_key: str) -> Table:
    """A table from a text file, .npy, .npz or Parquet, named by the configuration key `key`.

    `array` names the array of an .npz file with several; it is given by `array_key`.
    """
    suffix = path.lower().rpartition(".")[2]
    if suffix in ("npy", "npz"):
        return _read_numpy(path, key, array, array_key)
    if suffix in ("parquet", "pq"):
        found = columns.from_parquet(path, key, index=False)
        for name, column in found.items():
            require(column.dtype.kind in "biuf", f"{key}: {path}: column {name} holds something else than numbers")
        require(found, f"{key}: {path} is empty")
        return from_array(np.stack([c.astype(np.float64) for c in found.values()], axis=1), f"{key}: {path}")
    return _read_text(path, key)


def _read_numpy(path: str, key: str, array: str, array_key: str) -> Table:
    existing(path, key)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return from_array(loaded, f"{key}: {path}")
        with loaded:
            names = loaded.files
            chosen = array or (names[0] if len(names) == 1 else "")
            if chosen not in names:
                wanted = f"has no array {chosen}" if chosen else "has several arrays"
                raise FedsweError(f"{key}: {path} {wanted}: choose one of {', '.join(names)} with {array_key}")
            return from_array(loaded[chosen], f"{key}: {path}")
    except FedsweError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        # numpy takes any other file for pickled objects, and advises to load them.
        why = "not a numpy file, or one with Python objects" if "pickle" in str(error) else reason(error)
        raise FedsweError(f"{key}: {path} cannot be read as a numpy file ({why})") from None


# text ----------------------------------------------------------------------------------------------------
def _read_text(path: str, key: str) -> Table:
    text = open_text(path, key)
    try:
        skipped, index = _layout(text)
        values = _numbers(text, skipped, index)
    except (ValueError, OSError) as error:
        raise FedsweError(f"{key}: {path} is not a CSV of numbers, rows of equal length ({reason(error)})") from None
    index = index or (values.shape[1] > 1 and _counts(values[:, 0].tolist()))
    values = values[:, int(index) :]
    require(values.size, f"{key}: {path} is empty")
    return Table(values, path, text, skipped, int(index))


def _layout(text: TextFile) -> tuple[int, bool]:
    """The number of lines before the first row, and whether a header says that the first column is an index."""
    lines = text.lines()
    number, first = next(lines, (0, []))
    if not _is_header(first):
        return 0, False
    second = next(lines, (0, []))[1]
    named = first[0].lower() in _INDEX_NAMES or len(second) == len(first) + 1
    # Below a header, the first column may also hold names of the rows, such as dates.
    return number, named or (bool(second) and _number(second[0]) is None)


def _is_header(cells: Sequence[str]) -> bool:
    """Whether no cell can be a value: names, numbers of clients, or 0, 1, 2, ... as data frames write them."""
    cells = cells[1:] if cells and not cells[0] else cells
    numbers = [_number(cell) for cell in cells]
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


def _numbers(text: TextFile, skipped: int, index: bool) -> Floats:
    """All columns; an index becomes NaN."""

    def load(source: Any) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy warns about an empty file, which is refused later
            return np.loadtxt(
                source,
                delimiter=text.separator,
                skiprows=skipped,
                ndmin=2,
                dtype=np.float64,
                encoding=text.encoding,
                quotechar='"',
                converters={0: lambda cell: np.nan} if index else None,
            )

    try:
        return load(text.path)
    except ValueError as error:
        plain = text.path.read_text(encoding=text.encoding)
        numeric = re.sub(r"\b(?i:true|false)\b", lambda found: f"{_TRUTH[found[0].lower()]:g}", plain)
        if numeric == plain:
            raise ValueError(_mistake(text, skipped, index) or reason(error)) from None
    try:
        return load(StringIO(numeric))
    except ValueError as error:
        raise ValueError(_mistake(text, skipped, index) or reason(error)) from None


def _mistake(text: TextFile, skipped: int, index: bool) -> str:
    """The first line and column that cannot be read."""
    width = 0
    for number, cells in text.lines():
        if number <= skipped:
            continue
        width = width or len(cells)
        if len(cells) != width:
            return f"line {number} has {len(cells)} columns, the rows before it have {width}"
        for column, cell in enumerate(cells[int(index) :], 1 + int(index)):
            if _number(cell) is None:
                return f"line {number}, column {column}: {cell[:40]!r} is not a number"
    return ""
