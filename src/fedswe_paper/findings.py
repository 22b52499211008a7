"""Write experiments/FINDINGS.md and DETAILS.md from their templates: every number is computed from the stored runs.

    python -m fedswe_paper.findings            in the root of the repository

A template is Markdown in which {{ ... }} is a Python expression. It may use what `names` returns, among it the methods
of StoredNumbers and what is below; `sure(...)` stops the rendering where what the words beside it say is no longer so.
Templates are part of the repository, as trusted as its code.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole
from fedswe.results.table import quantile
from fedswe_paper import stored_numbers
from fedswe_paper.recipes import accuracy, periodic
from fedswe_paper.scale import SCALES
from fedswe_paper.selection import AIDED, CONFERENCE
from fedswe_paper.stored_numbers import Number, StoredNumbers, columns

TEXTS = ("FINDINGS.md", "DETAILS.md")
EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_WIDTH = 120
_K_READINGS = (
    ("k = 0", "k0"),
    ("k = 100, Algorithm 1", "k100"),
    ("k = 100, global rate 1.5", "k100 eta-g1.5"),
    ("k = 100, global rate 2", "k100 eta-g2"),
    ("k = 100, global rate 5", "k100 eta-g5"),
    ("k = 100, progress over active", "k100 active-progress"),
    ("k = 100, constant rate", "k100 constant-rate"),
)
_SETTINGS = {  # of the experiments, for expressions
    "KS": [int(k) for k in SCALES["full"].ks],
    "UNAIDED": [name for name, _ in CONFERENCE if name not in ("fedswe", *AIDED)],
    "K_READINGS": _K_READINGS,
    "READINGS_OF_K100": [words for _, words in _K_READINGS[1:]],
    "GRID_RATES": ("k100 eta-g1.5", "k100 eta-g5"),  # of the paper's grid of global rates, under all dynamics
}


def spreads(f: Callable[[str], Number], method: str) -> str:
    """The smallest and the largest standard deviation over seeds of the six columns."""
    return span(Number(n.spread) for n in columns(f, method) if n.spread is not None)


def by(*numbers: Number) -> str:
    """How far ahead: without a sign, and an error where it is no longer so."""
    require(all(number.mean > 0 for number in numbers), f"no longer ahead: {listed(numbers)}")
    return listed(abs(number) for number in numbers)


def sure(*facts: bool) -> str:
    """Nothing, and an error where a fact does not hold."""
    require(all(facts), f"no longer so: facts {[i for i, fact in enumerate(facts) if not fact]}, counted from 0")
    return ""


def clear(number: Number) -> bool:
    """Whether the difference is beyond noise."""
    if number.spread is None:
        raise FedsweError(f"{number} is of one seed: nothing says how large its noise is")
    return abs(number.mean) > quantile(len(number.seeds) - 1) * number.spread


def share(facts: Iterable[bool]) -> str:
    """How many of them hold: 17 of 18."""
    counted = list(facts)
    return f"{sum(counted)} of {len(counted)}"


def linear(needed: pd.Series, size: int) -> str:
    """How much of the linear speed-up over the smallest size there is at this size, in percent."""
    return f"{100 * needed.iloc[0] * needed.index[0] / (needed[size] * size):.0f}"


def falls(values: Sequence[float]) -> bool:
    return all(a > b for a, b in pairwise(values))


def listed(numbers: Iterable[object], last: str = ", ") -> str:
    """a, b, c"""
    *first, end = map(str, numbers)
    return last.join([", ".join(first), end]) if first else end


def span(numbers: Iterable[Number]) -> str:
    """The smallest and the largest mean, with their digits: 1.2 to 3.4."""
    ordered = sorted((number.plain for number in numbers), key=lambda number: number.mean)
    low, high = str(ordered[0]), str(ordered[-1])
    return low if low == high else f"{low} to {high}"


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; the heads are separated by bars."""
    heads = [part.strip() for part in head.split("|")]
    lines = [[str(cell) for cell in row] for row in rows]
    require(all(len(line) == len(heads) for line in lines), f"rows of {lines} do not fit the heads {heads}")
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *lines))


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Lines "label: words" of a table, one a row."""
    for row in text.strip().splitlines():
        label, _, words = row.partition(":")
        yield label.strip(), words.strip()


# texts ----------------------------------------------------------------------------------------------------------
def names(results: Path) -> dict[str, Any]:
    """What expressions may use: what these modules have, and the methods of the numbers."""
    numbers = StoredNumbers(results)
    methods = {name: getattr(numbers, name) for name in dir(numbers) if not name.startswith("_")}
    return {**vars(accuracy), **vars(periodic), **vars(stored_numbers), **globals(), **_SETTINGS, **methods}


def rendered(template: str, known: dict[str, Any]) -> str:
    """The text, its expressions replaced by their values, its paragraphs filled."""

    def value(found: re.Match[str]) -> str:
        expression = found[1].strip()
        try:
            return str(eval(f"({expression})", dict(known)))
        except Exception as error:
            error.add_note(f"in {{{{ {expression} }}}}")
            raise

    blocks = (EXPRESSION.sub(value, block).strip() for block in re.split(r"\n\n+", template))
    return "\n\n".join(_filled(block) for block in blocks if block) + "\n"


def _filled(block: str) -> str:
    """A paragraph or list in lines of at most 120 characters; heads, tables and code stay as they are."""
    if block.startswith(("#", "|", "```")):
        return block
    filled = []
    for item in re.split(r"\n(?=- )", block):
        indent = "  " if item.startswith("- ") else ""
        text = re.sub(r" ([=±]) ", "\u00a0\\1\u00a0", " ".join(item.split()))  # k = 0 and 1.2 ± 0.3 stay in one line
        lines = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        filled.append("\n".join(lines).replace("\u00a0", " "))
    return "\n".join(filled)


def write(folder: Path) -> None:
    """Both texts in the folder, from its templates and results; none where one cannot be written."""
    known = names(folder / "results")
    texts = {name: rendered((folder / "templates" / name).read_text(), known) for name in TEXTS}
    for name, text in texts.items():
        write_whole(folder / name, text)


def main() -> None:
    try:
        write(Path("experiments"))
    except FileNotFoundError as error:
        sys.exit(f"error: there is no file {error.filename}: run this in the root of the repository")
    except FedsweError as error:
        sys.exit("; ".join([f"error: {error}", *getattr(error, "__notes__", ())]))


if __name__ == "__main__":
    main()
