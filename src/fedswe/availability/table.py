"""Tables in files and in memory: text, Parquet and numpy files; tables with a row per round and a column per client."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedswe.availability.schedule import Bools, Floats
from fedswe.errors import FedsweError, needed, require

Orient = Literal["", "rounds", "clients"]


def existing(path: str, key: str) -> Path:
    require(Path(path).is_file(), f"{key}: there is no file {path}")
    return Path(path)


def reason(error: Exception) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, UnicodeError):
        return "not UTF-8 text"
    text = getattr(error, "strerror", None) or str(error)
    return next(iter(text.splitlines()), type(error).__name__)


# text and Parquet ----------------------------------------------------------------------------------------
def read_text(path: str, key: str, is_header: Callable[[list[str]], bool] = bool) -> pd.DataFrame:
    """The cells as texts, so that numbers are Python's to the last bit; the columns have names if there is a header.

    Cells are separated by ; tab , or white space. Blank lines and lines that begin with # are left out; the index has
    the numbers of the lines, and the name "line {}".
    """
    options: dict[str, Any] = {"header": None, "dtype": object, "keep_default_na": False, "skipinitialspace": True}
    numbers: list[int] = []
    try:
        text = existing(path, key).read_text("utf-8-sig").split("\n")
        numbers = [n for n, line in enumerate(text, 1) if line.strip() and not line.lstrip().startswith("#")]
        lines = [text[n - 1] for n in numbers]
        # Where cells have decimal commas, or timestamps have spaces, the separator is another one.
        separator = next((mark for mark in ";\t," if lines and mark in lines[0]), r"\s+")
        cells = pd.read_csv(io.StringIO("\n".join(lines)), sep=separator, **options) if lines else pd.DataFrame()
    except (OSError, ValueError) as error:  # pandas counts the lines that it was given
        why = re.sub(r"(?<=line )\d+", lambda found: str(numbers[int(found[0]) - 1]), reason(error))
        raise FedsweError(f"{key}: {path} cannot be read as a table ({why})") from None
    require(len(cells) == len(numbers), f"{key}: {path} has a cell with several lines")
    cells = cells.set_axis(pd.Index(numbers, name="line {}"))
    header = [cell.strip() for cell in cells.iloc[:1].to_numpy().ravel()]
    return cells.iloc[1:].set_axis(header, axis=1) if is_header(header) else cells


def is_parquet(path: str) -> bool:
    return path.lower().endswith((".parquet", ".pq"))


def read_parquet(path: str, key: str) -> pd.DataFrame:
    existing(path, key)
    needed("pyarrow", "paper")
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        raise FedsweError(f"{key}: {path} cannot be read as Parquet ({reason(error)})") from None


# tables with a row per round and a column per client ---------------------------------------------------------
_TRUTH = {"true": 1.0, "false": 0.0}
_INDEX_NAMES = {"", "index", "round", "t", "time", "unnamed: 0"}
_DATE = re.compile(r"\d+[-/.]\d+[-/.]\d+|\d:\d\d")


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers, a row per round and a column per client."""

    values: Floats
    name: str

    def require_everywhere(self, legal: Bools, rule: str) -> None:
        """Refuse the table, with the first value that is not legal and its place."""
        if not legal.all():
            t, i = np.argwhere(~legal)[0]
            place = f"(round {t}, client {i}, counted from 0)"
            raise FedsweError(f"{self.name} {rule}, found {self.values[t, i]:g} {place}")

    def require_clients(self, m: int) -> None:
        rows, found = self.values.shape
        turned = '; set availability.orient = "clients" if its rows are clients' if rows == m else ""
        require(found == m, f"{self.name} has {found} columns for {m} clients: give one column per client{turned}")


def table_of(array: Any, name: str, orient: Orient = "") -> Table:
    """A table from a numpy array, a torch tensor, nested lists or a data frame."""
    if isinstance(array, pd.DataFrame):
        _require_rounds(array.columns, array.index, name, orient)
    elif hasattr(array, "detach"):  # a tensor, perhaps on a GPU
        array = array.detach().cpu().numpy()
    try:
        if np.iscomplexobj(array):
            raise TypeError("it holds complex numbers")
        values = np.array(array, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise FedsweError(f"{name} is not a table of numbers, rows of equal length ({reason(error)})") from None
    rule = "must have two dimensions, a row per round and a column per client"
    require(values.ndim == 2, f"{name} {rule}, not the shape {values.shape}")
    require(values.size, f"{name} is empty")
    return Table(values.T.copy() if orient == "clients" else values, name)


def read_table(path: str, key: str, array: str, array_key: str, orient: Orient) -> Table:
    """A table from a text file, .npy, .npz or Parquet, named by the configuration key `key`.

    `array` names the array of an .npz file with several; it is given by `array_key`.
    """
    name = f"{key}: {path}"
    if path.lower().endswith((".npy", ".npz")):
        return table_of(_numpy_file(path, key, array, array_key), name, orient)
    if is_parquet(path):
        return table_of(read_parquet(path, key), name, orient)
    cells = read_text(path, key, _is_header)
    header = [] if cells.columns.dtype.kind == "i" else list(cells.columns)
    names = cells.iloc[:, :1].to_numpy().ravel()
    # Below a header, the first column may also hold names of the rows, such as dates.
    named = bool(header) and (header[0].lower() in _INDEX_NAMES or _number("".join(names[:1])) is None)
    if named or (cells.shape[1] > 1 and _counts([_number(cell) for cell in names])):
        cells = cells.iloc[:, 1:]
        if header:
            _require_rounds(header[1:], names, name, orient)
    return table_of(_values(cells, name), name, orient)


def _numpy_file(path: str, key: str, array: str, array_key: str) -> Any:
    existing(path, key)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            names = loaded.files
            chosen = array or (names[0] if len(names) == 1 else "")
            if chosen in names:
                return loaded[chosen]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        # numpy takes any other file for pickled objects, and advises to load them.
        why = "not a numpy file, or one with Python objects" if "pickle" in str(error) else reason(error)
        raise FedsweError(f"{key}: {path} cannot be read as a numpy file ({why})") from None
    wanted = f"has no array {chosen}" if chosen else "has several arrays"
    raise FedsweError(f"{key}: {path} {wanted}: choose one of {', '.join(names)} with {array_key}")


def _require_rounds(header: Sequence[Any], names: Sequence[Any], name: str, orient: Orient) -> None:
    """Refuse a table whose columns are counted as rounds are, while its rows have names as clients have."""
    if orient or not _counts([_number(str(cell)) for cell in header]):
        return
    first = next((str(cell) for cell in names if _number(str(cell)) is None and not _DATE.search(str(cell))), None)
    unclear = f"{name}: the columns are counted and a row is called {str(first)[:40]!r}"
    remedy = 'set availability.orient = "clients" if the rows are clients, "rounds" if they are rounds'
    require(first is None, f"{unclear}: {remedy}")


def _values(cells: pd.DataFrame, name: str) -> Floats:
    """Numbers and truth values; anything else is refused."""
    with suppress(ValueError):
        return np.asarray(cells.to_numpy(object).astype(np.float64))
    for line, row in cells.iterrows():
        wrong = next((cell for cell in row if _number(cell) is None), None)
        require(wrong is None, f"{name}: line {line}: {str(wrong)[:40]!r} is not a number")
    return np.asarray(cells.map(_number), dtype=np.float64)


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a row has names, or counts its columns from 0 or 1 as data frames do."""
    numbers = [_number(cell) for cell in cells]
    named = len(set(cells)) == len(cells) > 0 and all(number is None for number in numbers)
    return named or _counts(numbers) or (bool(cells) and numbers[0] is None and _counts(numbers[1:]))


def _counts(numbers: Sequence[float | None]) -> bool:
    """Whether the numbers are 0, 1, 2, ... or 1, 2, ...: with a 2 among them they are no values."""
    first, n = next(iter(numbers), None), len(numbers)
    return first in (0, 1) and first + n > 2 and list(numbers) == list(range(int(first), int(first) + n))


def _number(cell: str) -> float | None:
    with suppress(ValueError):
        return _TRUTH[cell.lower()] if cell.lower() in _TRUTH else float(cell)
    return None
