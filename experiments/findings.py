"""Write FINDINGS.md and DETAILS.md from their templates: every number is computed from the stored runs.

    python experiments/findings.py

A template is Markdown in which {{ ... }} is a Python expression. It may use what `names` returns, among it the methods
of StoredNumbers and what is below; `sure(...)` stops the rendering where what the words beside it say is no longer so.
Templates are part of the repository, as trusted as its code.

Runs have short descriptions. "svhn sine k100 eta-g2 server" is FedSWE with k = 100 on SVHN under the sine, in the
reading eta-g2, judged by its server model. The words may also name an algorithm, coordinates (alpha=0.05), the rounds
(rounds=5000; otherwise the longest runs of a line are meant), "train" for the train accuracy, "text" for the profile of
the paper's text, "bounded" for the runs whose gradients were bounded, and "finer" for those repeated in finer
arithmetic. Fashion-MNIST is the small scale.
"""

from __future__ import annotations

import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import ttest_ind_from_stats

from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole
from fedswe.results.table import CONFIDENCE, quantile
from fedswe_paper.cell import BOUNDED, PaperCell
from fedswe_paper.claims import CLAIMS
from fedswe_paper.margin import STATUSES
from fedswe_paper.measurements import Measurements, accuracy, first_error, first_round_of, last_error, swing
from fedswe_paper.profile import READINGS
from fedswe_paper.published import SEEDS, look_up
from fedswe_paper.recipes import accuracy as accuracy_recipes
from fedswe_paper.recipes import fair, periodic, speedup
from fedswe_paper.recipes.accuracy import first_round
from fedswe_paper.results import FINER, FinishedRun, load_runs
from fedswe_paper.scale import PAPER_SEEDS, SCALES
from fedswe_paper.selection import AIDED, CONFERENCE, ROWS, STEADY, Selection
from fedswe_paper.tables import Measured

SETS = ("svhn", "cifar10")  # that have been measured at full scale
CLAIMS_PAGE = "full-released/claims"
_REPEATED = {"bounded": BOUNDED, "finer": FINER}
_WORDS = {
    **dict.fromkeys(("server", "client_mean", "augmented_mean", "ema"), "output"),
    **dict.fromkeys(READINGS, "reading"),
    **dict.fromkeys(_REPEATED, "repeated"),
    "train": "part",
    "text": "profile",
}
_IN_WORDS = {"diverged, undecided": "undecided with runs in NaN", "not yet measured": "not measured"}
Seeds = Sequence[int]

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


@dataclass(frozen=True)
class Number:
    """A mean over seeds, and its spread: the standard deviation of a level, the standard error of a difference."""

    mean: float
    spread: float | None = None  # None: one seed
    seeds: tuple[int, ...] = ()
    signed: bool = False
    digits: int = 1

    def __str__(self) -> str:
        mean = round(self.mean, self.digits) + 0.0  # + 0.0: no negative zero
        sign = "+" if self.signed and mean else ""  # what is rounded to zero may have been on either side
        text = f"{mean:{sign}.{self.digits}f}".replace("-", "−")
        return text if self.spread is None else f"{text} ± {self.spread:.{self.digits}f}"

    @property
    def plain(self) -> Number:
        """Without its spread."""
        return replace(self, spread=None)

    def __abs__(self) -> Number:
        return replace(self, mean=abs(self.mean), signed=False)

    def __neg__(self) -> Number:
        return replace(self, mean=-self.mean)


def level(by_seed: pd.Series) -> Number:
    """Mean and standard deviation over seeds."""
    std = float(by_seed.std()) if len(by_seed) > 1 else None
    return Number(float(by_seed.mean()), std, tuple(by_seed.index))


def paired(ours: pd.Series, theirs: pd.Series) -> Number:
    """Mean and standard error of ours minus theirs; both must have the same seeds."""
    mine, others = list(ours.index), list(theirs.index)
    require(mine == others, f"seeds {mine} are compared with seeds {others}: name the seeds that both have")
    apart = level(ours - theirs)
    error = None if apart.spread is None else apart.spread / math.sqrt(len(ours))
    return replace(apart, spread=error, signed=True)


@dataclass(frozen=True)
class Line:
    """A description of runs that differ by their seed."""

    cell: PaperCell  # with seed 0
    output: str
    part: str  # of the data: test or train
    grid: str  # of the stored runs

    @property
    def column(self) -> str:
        return f"{self.output}_{self.part}_accuracy"

    def printed(self, table: str, **more: float) -> Mapping[str, Measured]:
        """What the paper's row has."""
        found = look_up(table, **vars(self.cell), **more)
        if found is None:
            raise FedsweError(f"{table} of the paper has no number for {self.cell.name} {more or ''}")
        return found.values


@cache
def line_of(text: str) -> Line:
    """The line that the words describe."""
    dataset, dynamics, method, *words = text.split()
    coordinates = [word for word in words if "=" in word]
    found = {_WORDS.get(word, word): word for word in words if "=" not in word}
    for unknown in set(found) - set(_WORDS.values()):
        raise FedsweError(f"unknown word {unknown!r} in {text!r}")
    selection = Selection(
        "small" if dataset == "fashion_mnist" else "full", "paper" if "profile" in found else "released"
    )
    method, reading = " ".join([method, *coordinates]), found.get("reading", "")
    cell = selection.described(dataset, dynamics, method, reading=reading)  # type: ignore[arg-type]
    grid = "-".join([cell.scale, cell.profile, *[_REPEATED[word] for word in words if word in _REPEATED]])
    return Line(cell, found.get("output", cell.judged_by), found.get("part", "test"), grid)


class StoredNumbers:
    """All numbers in percent, or points of it, unless a method says otherwise."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._runs = cache(lambda grid: load_runs(out, grid))  # every file is read once
        self._measured = cache(lambda grid: Measurements(self._runs(grid)))

    # runs -------------------------------------------------------------------------------------------------------
    def runs(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, FinishedRun]:
        """By seed; it is an error if one is missing. So runs of one seed and of three are never mixed."""
        line = line_of(text)
        runs = self._measured(line.grid).scored(line.cell)
        found = {run.cell.seed: run for run in runs if run.cell.seed in seeds}
        require(len(found) == len(seeds), f"{text}: of the seeds {list(seeds)}, {sorted(found)} are stored")
        return found

    def rounds(self, text: str, seeds: Seeds = PAPER_SEEDS) -> int:
        """The length of these runs; runs that are up to 1 % shorter count as long as the others."""
        return max(int(run.history.last["round"]) for run in self.runs(text, seeds).values())

    def diverged(self, text: str, seeds: Seeds = PAPER_SEEDS) -> list[int]:
        """The seeds whose run ended in NaN or infinity."""
        return [seed for seed, run in self.runs(text, seeds).items() if run.diverged]

    def _finite(self, text: str, seeds: Seeds) -> dict[int, FinishedRun]:
        """The runs by seed; it is an error if one diverged."""
        lost = self.diverged(text, seeds)
        require(not lost, f"{text} diverged with seeds {lost}: it has no scores")
        return self.runs(text, seeds)

    def _each(self, text: str, seeds: Seeds, of: Callable[[FinishedRun], float]) -> pd.Series:
        """A number of each run, by seed."""
        return pd.Series({seed: of(run) for seed, run in self._finite(text, seeds).items()})

    # scores -----------------------------------------------------------------------------------------------------
    def by_seed(self, text: str, seeds: Seeds = PAPER_SEEDS) -> pd.Series:
        """Accuracy over the last rounds."""
        line = line_of(text)
        return self._each(text, seeds, accuracy(line.output, line.part))

    def score(self, text: str, seeds: Seeds = PAPER_SEEDS) -> Number:
        return level(self.by_seed(text, seeds))

    def gap(self, ours: str, theirs: str, seeds: Seeds = PAPER_SEEDS) -> Number:
        """Ours minus theirs; both must have the same length."""
        lengths = [self.rounds(text, seeds) for text in (ours, theirs)]
        require(min(lengths) >= 0.99 * max(lengths), f"{ours} has {lengths[0]} rounds, {theirs} has {lengths[1]}")
        return paired(self.by_seed(ours, seeds), self.by_seed(theirs, seeds))

    def published(self, text: str) -> Number:
        """The paper's number: of Table 2, or of Tables 8 and 9 where gamma or alpha is named."""
        line, table = line_of(text), "table8" if " gamma=" in text else "table9" if " alpha=" in text else "table2"
        found = line.printed(table)[line.part]
        return Number(found.mean, found.std)

    def published_gap(self, ours: str, theirs: str) -> Number:
        return Number(self.published(ours).mean - self.published(theirs).mean, signed=True)

    def off(self, text: str) -> Number:
        """Ours minus the published number."""
        return Number(self.score(text).mean - self.published(text).mean, signed=True)

    def far_off(self, text: str) -> bool:
        """Whether ours and the published level differ beyond noise: by Welch's t, at the level of 95 %."""
        ours, theirs = ((number.mean, number.spread, SEEDS) for number in (self.score(text), self.published(text)))
        return bool(ttest_ind_from_stats(*ours, *theirs, equal_var=False).pvalue < 1 - CONFIDENCE)

    def both(self, text: str) -> str:
        """Ours / the paper's."""
        return f"{self.score(text)} / {self.published(text).plain}"

    def first(self, text: str, target: float) -> str:
        """The first evaluated round at which the curve averaged over seeds reaches so many percent, as in Table 7."""
        line = line_of(text)
        found = first_round(line.cell, self._measured(line.grid), target, line.output)
        if found is None:
            raise FedsweError(f"{text} has not been run")
        return _round(found.mean)

    def arrivals(self, text: str, target: float, seeds: Seeds = PAPER_SEEDS) -> pd.Series:
        """The first evaluated round at which a run reaches so many percent, by seed; the run may diverge later."""
        output, runs = line_of(text).output, self.runs(text, seeds)
        found = pd.Series({seed: first_round_of(run, target / 100, output) for seed, run in runs.items()})
        require(not found.isna().any(), f"{text} diverged before it reached {target} %")
        return found.map(_round)

    def published_first(self, text: str, target: float) -> str:
        """The paper's round in Table 7."""
        return _round(line_of(text).printed("table7", target=target)["rounds"].mean)

    # within a run -----------------------------------------------------------------------------------------------
    def curves(self, text: str, seeds: Seeds = PAPER_SEEDS, column: str = "", tail: bool = False) -> pd.DataFrame:
        """The accuracy, or a column of the history as it is stored: by round, of the last rounds only, and by seed."""
        runs, column = self._finite(text, seeds), column or line_of(text).column
        found = pd.DataFrame({seed: pd.Series(run.history[column], run.history["round"]) for seed, run in runs.items()})
        last = line_of(text).cell.experiment().evaluate.tail
        return found[found.index > found.index[-1] - last] if tail else found

    def swing(self, text: str, seeds: Seeds = PAPER_SEEDS) -> pd.Series:
        """Standard deviation of the accuracy over the last rounds, by seed."""
        return 100 * self.curves(text, seeds, tail=True).std(ddof=0)  # no trend is taken out

    def swing_at_one_phase(self, text: str, seeds: Seeds = PAPER_SEEDS) -> pd.Series:
        """What the claims on turns of groups call swing: about a line, once a period, as the paper plots it."""
        return self._each(text, seeds, swing(line_of(text).output))

    def peak(self, text: str, seeds: Seeds = PAPER_SEEDS) -> pd.Series:
        """The highest accuracy of the run, by seed."""
        return 100 * self.curves(text, seeds).max()

    def consensus(self, text: str, seeds: Seeds = PAPER_SEEDS) -> pd.Series:
        """Mean squared distance of the clients' models from their mean over the last rounds, by seed."""
        return self._each(text, seeds, last_error)

    def first_tenth(self, text: str, seeds: Seeds = PAPER_SEEDS) -> pd.Series:
        """The same over the first tenth of the rounds, without the start, at which all models are equal."""
        return self._each(text, seeds, first_error)

    def at(self, text: str, t: int, column: str = "", seed: int = 3) -> float:
        """One evaluation: the accuracy, or another column as it is stored. The run may have diverged later."""
        run = self.runs(text, [seed])[seed]
        (value,) = run.curve(column or line_of(text).column)[run.history["round"] == t]
        require(math.isfinite(value), f"{text} has diverged before round {t}")
        return float(value) if column else 100 * float(value)

    def last_finite(self, text: str, seed: int = 3) -> int:
        """The last evaluated round whose losses are all finite."""
        return self.runs(text, [seed])[seed].last_finite

    # the same tuning for all ------------------------------------------------------------------------------------
    def tuned(self, text: str, seeds: Seeds = PAPER_SEEDS) -> tuple[str, pd.Series]:
        """The local rate that these seeds choose on held-out data for the judged model, and the test accuracy."""
        line = line_of(text)
        measured = Measurements(run for run in self._runs(line.grid) if run.cell.seed in seeds)
        best = fair.tuned(fair.tried(line.cell), measured, line.output)
        found = pd.Series(measured.scores(best, "test_accuracy", line.output) if best else {})
        require(set(found.index) == set(seeds), f"{text}: not every rate has been run with the seeds {list(seeds)}")
        return _rate(best.rate if best else 0.0), found

    def tuned_gap(self, ours: str, theirs: str, seeds: Seeds = PAPER_SEEDS) -> Number:
        return paired(self.tuned(ours, seeds)[1], self.tuned(theirs, seeds)[1])

    def chosen(self, text: str, seeds: Seeds) -> str:
        """The accuracy with the rate that was chosen, and the rate."""
        rate, by_seed = self.tuned(text, seeds)
        return f"{level(by_seed)} [{rate}]"

    # not of runs ------------------------------------------------------------------------------------------------
    def speedup(self, what: str, p: float, target: float) -> pd.Series:
        """Share of the linear speed-up in percent, by the number of clients or of local steps."""
        found = speedup.table().query("what == @what and p == @p and target == @target").set_index("size")
        return 100 * found["efficiency"].round(4)

    def digits_rounds(self, what: str) -> pd.Series:
        """Rounds on the digits at the best rate: by clients, with 2 local steps, or by local steps, with 8 clients."""
        varied, fixed = {"clients": ("clients", "steps == 2"), "local steps": ("steps", "clients == 8")}[what]
        found = pd.read_csv(self._out / "speedup-digits.csv").query(fixed).set_index(varied).sort_index()
        return found.filter(like="rate ").min(axis=1)

    def compared(self, file: str, algorithm: str, model: str) -> tuple[Number, str]:
        """Test accuracy and rate of a stored summary of fedswe compare."""
        (row,) = pd.read_csv(self._out / file).query("algorithm == @algorithm and model == @model").itertuples()
        return Number(100 * row.test_accuracy_mean, 100 * row.test_accuracy_std), _rate(row.local_lr)

    def verdicts(self, *recipes: str) -> pd.DataFrame:
        """The verdicts on the claims that these recipes measure, or on all, and whether they are the paper's."""
        claims = {claim.id: claim for claim in CLAIMS if not recipes or set(claim.recipes) & set(recipes)}
        found = pd.read_csv(self._out / f"{CLAIMS_PAGE}.csv", index_col="id", dtype=str).loc[list(claims)]
        return found.assign(in_the_paper=[claim.in_the_paper for claim in claims.values()])

    # of several lines -----------------------------------------------------------------------------------------
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

    def counted(self, *recipes: str, in_the_paper: bool, exact: bool = False) -> str:
        """How many verdicts there are of each kind, on what needs no runs, or on what does."""
        found = self.verdicts(*recipes).query("in_the_paper == @in_the_paper and (seeds == 'exact') == @exact")
        counts = found["status"].value_counts()
        return ", ".join(f"{_IN_WORDS.get(s, s)}: {counts[s]}" for s in STATUSES if s in counts)

    def claims_of(self, *recipes: str) -> str:
        """The claims that these recipes measure, by verdict, and how many of our variants have which."""
        parts = []
        for status, rows in self.verdicts(*recipes).query("in_the_paper").groupby("status", sort=False):
            links = ", ".join(f"[{claim}](results/{CLAIMS_PAGE}.md#{claim})" for claim in rows.index)
            parts.append(f"*{str(status).capitalize()}*: {links}")
        variants = self.counted(*recipes, in_the_paper=False)
        return ". ".join([*parts, *([f"Variants with another model ({variants})"] if variants else [])])


def _round(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "never"


def _rate(value: float) -> str:
    return f"{value:g}".lstrip("0")


def short(value: float) -> str:
    """101, 41, 0.45."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def over(f: Callable[..., Any], *lines: str) -> list[Any]:
    """A function of lines, with each of the three dynamics in the place of *."""
    return [f(*(line.replace("*", dynamics) for line in lines)) for dynamics in STEADY]


def columns(f: Callable[..., Any], *methods: str) -> list[Any]:
    """A function of lines, in each of the six columns of Table 2 that have been measured."""
    return [value for dataset in SETS for value in over(f, *(f"{dataset} * {method}" for method in methods))]


def k0_like(reading: str) -> str:
    """What a reading of k = 100 is compared with: k = 0, with a constant local rate if it has one."""
    return "k0 constant-rate" if reading.endswith("constant-rate") else "k0"


# in texts -------------------------------------------------------------------------------------------------------
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
    return {**vars(accuracy_recipes), **vars(periodic), **globals(), **_SETTINGS, **methods}


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
        write(Path(__file__).parent)
    except FedsweError as error:
        sys.exit("; ".join([f"error: {error}", *getattr(error, "__notes__", ())]))


if __name__ == "__main__":
    main()
