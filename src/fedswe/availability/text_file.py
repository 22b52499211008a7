"""Tables in text and Parquet files: encoding, separator, comments and the line numbers that errors name."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedswe.errors import FedsweError

if TYPE_CHECKING:
    from pandas import DataFrame

_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class TextFile:
    """A file of lines with separated cells. Blank lines and lines that begin with # are left out."""

    path: Path
    encoding: str
    separator: str | None  # None: white space

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """The number, from 1, and the cells of each line."""
        for number, text in _lines(self.path, self.encoding):
            yield number, self._cells(text)

    def _cells(self, text: str) -> list[str]:
        if self.separator is None:
            return text.replace('"', "").split()
        try:
            return [cell.strip() for cell in next(csv.reader([text], delimiter=self.separator))]
        except csv.Error as error:  # a cell of more than 131072 characters
            raise ValueError(str(error)) from None

    def frame(self, skipped: int, **options: Any) -> DataFrame:
        """All cells below so many lines, as texts: numbers are then Python's to the last bit."""
        import pandas as pd

        separator = self.separator or r"\s+"
        kept: dict[str, Any] = {"header": None, "dtype": object, "keep_default_na": False, "skipinitialspace": True}
        return pd.read_csv(self.path, sep=separator, encoding=self.encoding, skiprows=skipped, **kept, **options)

    def line_of(self, row: int, skipped: int, comments: bool = True) -> str:
        """The line that holds this row, from 0; `comments` says whether the rows leave out lines of comments."""
        lines = (number for number, _ in _lines(self.path, self.encoding, comments) if number > skipped)
        return f"line {next(number for count, number in enumerate(lines) if count == row)}"


def open_text(path: str, key: str) -> TextFile:
    """Recognise encoding and separator. `key` is the configuration key that named the file."""
    file = existing(path, key)
    try:
        with file.open("rb") as stream:
            encoding = _MARKS.get(stream.read(2), "utf-8-sig")
        first = next((text for _, text in _lines(file, encoding)), "")
    except (OSError, UnicodeError) as error:
        raise FedsweError(f"{key}: {path} is not a CSV of numbers ({reason(error)})") from None
    # Where cells have decimal commas, or timestamps have spaces, the separator is another one.
    return TextFile(file, encoding, next((mark for mark in ";\t," if mark in first), None))


def is_parquet(path: str) -> bool:
    return path.lower().endswith((".parquet", ".pq"))


def read_parquet(path: str, key: str) -> DataFrame:
    import pandas as pd

    existing(path, key)
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise FedsweError(f"{key}: {path} is a Parquet file, which pyarrow reads: pip install pyarrow") from None
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        raise FedsweError(f"{key}: {path} cannot be read as Parquet ({reason(error)})") from None


def existing(path: str, key: str) -> Path:
    if not Path(path).is_file():
        raise FedsweError(f"{key}: there is no file {path}")
    return Path(path)


def reason(error: Exception) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, UnicodeError):
        return "not UTF-8 text"
    text = getattr(error, "strerror", None) or str(error)
    return next(iter(text.splitlines()), type(error).__name__)


def _lines(path: Path, encoding: str, comments: bool = True) -> Iterator[tuple[int, str]]:
    with path.open(encoding=encoding) as stream:
        for number, line in enumerate(stream, 1):
            text = line.strip("\r\n")
            if text.strip() and not (comments and text.lstrip().startswith("#")):
                yield number, text
