"""Write experiments/FINDINGS.md and DETAILS.md from their templates: every number is computed from the stored runs.

    python -m fedswe_paper.findings            in the root of the repository

A template is Markdown in which {{ ... }} is a Python expression. It may use the methods of StoredNumbers and what is
below; `sure(...)` stops the rendering where what the words beside it say is no longer so. Templates are part of the
repository, as trusted as its code.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole
from fedswe.results.table import quantile
from fedswe_paper.recipes.accuracy import ALPHAS, DEPTHS, GAMMAS, PROBABILITIES, targets_of
from fedswe_paper.recipes.periodic import BASELINES
from fedswe_paper.scale import SCALES
from fedswe_paper.selection import AIDED, CONFERENCE, ROWS, STEADY
from fedswe_paper.stored_numbers import CLAIMS_PAGE, Number, StoredNumbers, level, line_of, paired

TEXTS = ("FINDINGS.md", "DETAILS.md")
EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_WIDTH = 120
_STATUSES = {
    "holds": "holds", "does not hold": "does not hold", "undecided": "undecided",
    "diverged, undecided": "undecided with runs in NaN", "not yet measured": "not measured",
}  # fmt: skip
_SETS = ("svhn", "cifar10")  # that have been measured at full scale
_K_READINGS = (
    ("k = 0", "k0"),
    ("k = 100, Algorithm 1", "k100"),
    ("k = 100, global rate 1.5", "k100 eta-g1.5"),
    ("k = 100, global rate 2", "k100 eta-g2"),
    ("k = 100, global rate 5", "k100 eta-g5"),
    ("k = 100, progress over active", "k100 active-progress"),
    ("k = 100, constant rate", "k100 constant-rate"),
)


# of several lines ---------------------------------------------------------------------------------------------
def over(f: Callable[..., Any], *lines: str) -> list[Any]:
    """A function of lines, with each of the three dynamics in the place of *."""
    return [f(*(line.replace("*", dynamics) for line in lines)) for dynamics in STEADY]


def columns(f: Callable[..., Any], *methods: str) -> list[Any]:
    """A function of lines, in each of the six columns of Table 2 that have been measured."""
    return [value for dataset in _SETS for value in over(f, *(f"{dataset} * {method}" for method in methods))]


def spreads(f: Callable[[str], Number], method: str) -> str:
    """The smallest and the largest standard deviation over seeds of the six columns."""
    return span(Number(n.spread) for n in columns(f, method) if n.spread is not None)


def k0_like(reading: str) -> str:
    """What a reading of k = 100 is compared with: k = 0, with a constant local rate if it has one."""
    return "k0 constant-rate" if reading.endswith("constant-rate") else "k0"


class Terms(StoredNumbers):
    """What the texts say of several lines."""

    def nearest(self, method: str) -> Number:
        """How far from the published number at most, in the six columns."""
        away: list[Number] = columns(self.off, method)
        return max(map(abs, away), key=lambda number: number.mean)

    def ahead_with_every_seed(self, ours: str, theirs: str) -> bool:
        return bool((self.by_seed(ours) > self.by_seed(theirs)).all())

    def steadier(self, output: str) -> list[float]:
        """Fluctuation of k = 0 over that of k = 100, in every column and with every seed."""
        plain, steady = (columns(self.swing, f"{k} {output}") for k in ("k0", "k100"))
        return [ratio for a, b in zip(plain, steady, strict=True) for ratio in a / b]

    def mean_gap(self, ours: str, theirs: str) -> Number:
        """Ours minus theirs in the mean of the six columns."""
        mine, others = (columns(self.by_seed, method) for method in (ours, theirs))
        return paired(sum(mine) / len(mine), sum(others) / len(others))

    def mean_change(self, dataset: str, before: str, after: str) -> Number:
        """Of the mean accuracy of the six methods without memory or known statistics that train."""
        rows = [f"k{k:g}" if name == "fedswe" else name for name, k in ROWS if name not in (*AIDED, "gfedavg")]
        first, second = (sum(self.by_seed(f"{dataset} {d} {row}") for row in rows) / len(rows) for d in (before, after))
        return replace(paired(second, first), digits=2)

    def shown(self, line: str) -> str:
        """With seed 3, for a table that has gaps: the accuracy, or where no model is named the consensus error."""
        try:
            lost = self.diverged(line, [3])
        except FedsweError:
            return ""
        if line.endswith(" "):
            return short(self.consensus(line, [3])[3]) if line_of(line).cell.algorithm == "fedswe" else ""
        return "NaN" if lost else str(self.score(line, [3]))

    def status(self, claim: str) -> str:
        return str(self.verdicts().loc[claim, "status"])

    def counted(self, in_the_paper: bool, exact: bool = False, recipes: Sequence[str] = ()) -> str:
        """How many verdicts there are of each kind, on what needs no runs, or on what does."""
        found = self.verdicts(in_the_paper, recipes)
        counts = found[(found["seeds"] == "exact") == exact]["status"].value_counts()
        return ", ".join(f"{words}: {counts[status]}" for status, words in _STATUSES.items() if status in counts)

    def claims_of(self, *recipes: str) -> str:
        """The claims that these recipes measure, by verdict, and how many of our variants have which."""
        found = self.verdicts(True, recipes).groupby("status", sort=False)
        parts = [
            f"*{status[:1].upper()}{status[1:]}*: "
            + ", ".join(f"[{claim}](results/{CLAIMS_PAGE}.md#{claim})" for claim in rows.index)
            for status, rows in found
        ]
        variants = self.counted(in_the_paper=False, recipes=recipes)
        return ". ".join([*parts, *([f"Variants with another model ({variants})"] if variants else [])])


# of numbers -----------------------------------------------------------------------------------------------------
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


def short(value: float) -> str:
    """101, 41, 0.45."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


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
    """What expressions may use: the functions above, the methods of the numbers, coordinates of the experiments."""
    terms = Terms(results)
    return {
        **globals(),
        **{name: getattr(terms, name) for name in dir(terms) if not name.startswith("_")},
        "level": level, "steady": STEADY, "alphas": ALPHAS, "gammas": GAMMAS, "depths": DEPTHS,
        "ks": [int(k) for k in SCALES["full"].ks],
        "unaided": [name for name, _ in CONFERENCE if name not in ("fedswe", *AIDED)],
        "baselines": [name for name, _ in BASELINES],
        "k_readings": _K_READINGS, "readings": [words for _, words in _K_READINGS[1:]],
        "grid_rates": ("k100 eta-g1.5", "k100 eta-g5"),  # of the paper's grid of global rates, under all dynamics
        "probabilities": [f"{p:g}" for p in PROBABILITIES],
        "targets": {dataset: targets_of(dataset) for dataset in _SETS},
    }  # fmt: skip


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
    templates = {name: folder / "templates" / name for name in TEXTS}
    missing = [path for path in templates.values() if not path.is_file()]
    if missing:
        raise FedsweError(f"there is no file {missing[0]}: run this in the root of the repository")
    known = names(folder / "results")
    texts = {name: rendered(path.read_text(), known) for name, path in templates.items()}
    for name, text in texts.items():
        write_whole(folder / name, text)


def main() -> None:
    try:
        write(Path("experiments"))
    except FedsweError as error:
        print("; ".join([f"error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
