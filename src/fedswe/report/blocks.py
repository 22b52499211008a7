"""What a report consists of: sections of texts, tables, files and charts; a page and a PDF are made from them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedswe.report.charts import Chart
from fedswe.report.noise import Place

_RIGHT_TO_LEFT = {"R", "AL"}
_ISOLATE, _END = "\u2068", "\u2069"


@dataclass(frozen=True)
class Text:
    """Paragraphs."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Cell:
    text: str
    mark: Place = ""  # how the number stands to the others of its column, within the noise


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""
    words: int = 1  # first columns that hold words, not numbers


@dataclass(frozen=True)
class Listing:
    """Text that is shown as it is, in a box that can be opened."""

    title: str
    text: str
    opened: bool = False


Block = Text | Table | Listing | Chart


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Report:
    title: str
    summary: Sequence[str]  # sentences
    sections: Sequence[Section] = field(default_factory=list)


def name_in_text(name: str) -> str:
    """A name in a sentence: what is written from right to left does not turn the words around it."""
    name = name.translate({ord(mark): None for mark in (_ISOLATE, _END)})  # a page shows other marks of direction
    turns = any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in name)
    return f"{_ISOLATE}{name}{_END}" if turns else name


def listed(names: Sequence[str], most: int = 6) -> str:
    """a, b and c; of many names the first, and how many there are besides."""
    shown = [name_in_text(name) for name in names]
    if len(shown) > most + 1:
        shown = [*shown[:most], f"{len(shown) - most} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
