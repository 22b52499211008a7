"""The names that expressions in the templates of the findings may use."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import mean, median
from typing import Any

from fedswe.errors import FedsweError, require
from fedswe.results.table import quantile
from fedswe_paper.claims import CLAIMS
from fedswe_paper.recipes.accuracy_tables import ALPHAS, GAMMAS
from fedswe_paper.recipes.motivating import GAMMAS as DEPTHS
from fedswe_paper.recipes.motivating import PROBABILITIES
from fedswe_paper.recipes.periodic import BASELINES
from fedswe_paper.recipes.slowdown import targets_of
from fedswe_paper.scale import PAPER_SEEDS, SCALES
from fedswe_paper.selection import AIDED, CONFERENCE, ROWS, STEADY
from fedswe_paper.stored_numbers import Number, StoredNumbers, line_of, listed, paired, pairs, span, table

_SETS = ("svhn", "cifar10")  # that have been measured at full scale
_CLAIMS = "full-released/claims"
_STATUSES = {
    "holds": "holds", "does not hold": "does not hold", "undecided": "undecided",
    "diverged, undecided": "undecided with runs in NaN", "not yet measured": "not measured",
}  # fmt: skip
_K_READINGS = (
    ("k = 0", "k0"),
    ("k = 100, Algorithm 1", "k100"),
    ("k = 100, global rate 1.5", "k100 eta-g1.5"),
    ("k = 100, global rate 2", "k100 eta-g2"),
    ("k = 100, global rate 5", "k100 eta-g5"),
    ("k = 100, progress over active", "k100 active-progress"),
    ("k = 100, constant rate", "k100 constant-rate"),
)
_GRID_RATES = ("k100 eta-g1.5", "k100 eta-g5")  # of the paper's grid of global rates, under all dynamics


def template_names(stored: StoredNumbers) -> dict[str, Any]:
    """What is computed from runs, how numbers are written, and the coordinates of the experiments."""
    terms = _Terms(stored)
    return {
        "score": stored.score, "gap": stored.gap, "published": stored.published, "off": stored.off,
        "far_off": stored.far_off,
        "both": stored.both, "first": stored.first, "by_seed": stored.by_seed, "swing": stored.swing,
        "published_first": stored.published_first, "swing_at_one_phase": stored.swing_at_one_phase,
        "swing_gap_at_one_phase": stored.swing_gap_at_one_phase,
        "arrivals": stored.arrivals,
        "speedup": stored.speedup, "digits_rounds": stored.digits_rounds, "digits_share": terms.digits_share,
        "extremes": stored.extremes, "peak": stored.peak, "consensus": stored.consensus,
        "first_tenth": stored.consensus_at_first, "at": stored.at,
        "last_finite": stored.last_finite, "rounds": stored.rounds, "diverged": stored.diverged,
        "tuned": stored.tuned, "tuned_gap": stored.tuned_gap, "compared": stored.compared,

        "over": over, "columns": columns, "k0_like": k0_like, "nearest": terms.nearest, "spreads": spreads,
        "published_gap": terms.published_gap, "swings": terms.swings, "mean_change": terms.mean_change,
        "mean_gap": terms.mean_gap,
        "lead_lost": terms.lead_lost,
        "shown": terms.shown, "chosen": terms.chosen, "lowest_with": terms.lowest_with, "steadier": terms.steadier,
        "ahead_with_every_seed": terms.ahead_with_every_seed, "claims_of": terms.claims_of, "or_nan": terms.or_nan,
        "counted": terms.counted, "status": terms.status,

        "Number": Number, "listed": listed, "span": span, "table": table, "pairs": pairs, "median": median,
        "paired": paired, "sure": sure, "by": by,
        "share": share, "short": short, "falls": falls, "clear": clear, "quantile": quantile,

        "steady": STEADY, "alphas": ALPHAS, "gammas": GAMMAS, "depths": DEPTHS,
        "ks": [int(k) for k in SCALES["full"].ks],
        "unaided": [name for name, _ in CONFERENCE if name not in ("fedswe", *AIDED)],
        "baselines": [name for name, _ in BASELINES],
        "k_readings": _K_READINGS, "grid_rates": _GRID_RATES, "readings": [words for _, words in _K_READINGS[1:]],
        "probabilities": [f"{p:g}" for p in PROBABILITIES],
        "targets": {dataset: targets_of(dataset) for dataset in _SETS},
    }  # fmt: skip


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


@dataclass(frozen=True)
class _Terms:
    stored: StoredNumbers

    def nearest(self, method: str) -> str:
        """How far from the published number at most, in the six columns."""
        return str(max((abs(n) for n in columns(self.stored.off, method)), key=lambda n: n.mean))

    def published_gap(self, ours: str, theirs: str) -> Number:
        return Number(self.stored.published(ours).mean - self.stored.published(theirs).mean, signed=True)

    def or_nan(self, f: Callable[..., object]) -> Callable[..., object]:
        """The function of lines, but "NaN" where a run of one of them diverged: for tables."""
        return lambda *lines: "NaN" if any(map(self.stored.diverged, lines)) else f(*lines)

    def ahead_with_every_seed(self, ours: str, theirs: str) -> bool:
        mine, others = self.stored.by_seed(ours), self.stored.by_seed(theirs)
        return all(mine[seed] > others[seed] for seed in mine)

    def swings(self, line: str) -> str:
        """Fluctuation of server model and client mean, mean over seeds."""
        return "; ".join(f"{mean(self.stored.swing(f'{line} {o}').values()):.1f}" for o in ("server", "client_mean"))

    def steadier(self, output: str) -> list[float]:
        """Fluctuation of k = 0 over that of k = 100, in every column and with every seed."""
        plain, steady = (columns(self.stored.swing, f"{k} {output}") for k in ("k0", "k100"))
        return [a[seed] / b[seed] for a, b in zip(plain, steady, strict=True) for seed in a]

    def mean_gap(self, ours: str, theirs: str) -> Number:
        """Ours minus theirs in the mean of the six columns."""
        mine, others = (columns(self.stored.by_seed, method) for method in (ours, theirs))
        return paired(*({s: mean(column[s] for column in found) for s in PAPER_SEEDS} for found in (mine, others)))

    def mean_change(self, dataset: str, before: str, after: str) -> Number:
        """Of the mean accuracy of the six methods without memory or known statistics that train."""
        rows = [f"k{k:g}" if name == "fedswe" else name for name, k in ROWS if name not in (*AIDED, "gfedavg")]
        first, second = (
            {s: mean(self.stored.by_seed(f"{dataset} {dynamics} {row}")[s] for row in rows) for s in PAPER_SEEDS}
            for dynamics in (before, after)
        )
        return replace(paired(second, first), digits=2)

    def lead_lost(self, place: str) -> Number:
        """How much smaller the lead of k = 0 over FedAvg is with constant local rates, as in the conference code."""

        def lead(reading: str) -> dict[int, float]:
            ours, theirs = (self.stored.by_seed(f"{place} {method} {reading}") for method in ("k0", "fedavg"))
            return {seed: ours[seed] - theirs[seed] for seed in ours}

        return paired(lead(""), lead("constant-rate"))

    def shown(self, line: str) -> str:
        """With seed 3, for a table that has gaps: the accuracy, or where no model is named the consensus error."""
        try:
            lost = self.stored.diverged(line, [3])
        except FedsweError:
            return ""
        if line.endswith(" "):
            return short(self.stored.consensus(line, [3])[3]) if line_of(line).cell.algorithm == "fedswe" else ""
        return "NaN" if lost else str(self.stored.score(line, [3]))

    def chosen(self, line: str, seeds: Sequence[int]) -> str:
        """The accuracy with the rate that was chosen, and the rate."""
        rate, accuracy = self.stored.tuned(line, seeds)
        return f"{accuracy} [{rate}]"

    def lowest_with(self, fewest: int, most: int) -> str:
        """Of FedAvg's server model in the last rounds of one run of Figure 3, after rounds with so many clients."""
        line = "svhn sine fedavg p=1 gamma=0.5 server"
        available, accuracy = (self.stored.tail(line, c, [3])[3] for c in ("available", line_of(line).column))
        return f"{100 * accuracy[(available >= fewest) & (available <= most)].min():.1f}"

    def digits_share(self, what: str, size: int) -> str:
        """Share of the linear speed-up on the digits, in percent, over the smallest size."""
        needed = self.stored.digits_rounds(what)
        first = min(needed)
        return f"{100 * needed[first] * first / (needed[size] * size):.0f}"

    def status(self, claim: str) -> str:
        """The verdict on a claim."""
        return self.verdicts[claim]["status"]

    @cached_property
    def verdicts(self) -> dict[str, dict[str, str]]:
        with (self.stored.out / f"{_CLAIMS}.csv").open(newline="") as text:
            return {row["id"]: row for row in csv.DictReader(text)}

    def counted(self, in_the_paper: bool, exact: bool = False, recipes: Iterable[str] = ()) -> str:
        """The verdicts on the paper's claims, or on our variants of them; on what needs no runs, or on what does."""
        ids = [
            claim.id
            for claim in CLAIMS
            if claim.in_the_paper == in_the_paper and (not recipes or set(claim.recipes) & set(recipes))
        ]
        rows = [self.verdicts[claim] for claim in ids]
        counts = Counter(row["status"] for row in rows if (row["seeds"] == "exact") == exact)
        return ", ".join(f"{words}: {counts[status]}" for status, words in _STATUSES.items() if counts[status])

    def claims_of(self, *recipes: str) -> str:
        """The claims that these recipes measure, by verdict, and how many of our variants have which."""
        found: dict[str, list[str]] = {}
        for claim in CLAIMS:
            if claim.in_the_paper and set(claim.recipes) & set(recipes):
                status = self.verdicts[claim.id]["status"]
                found.setdefault(status, []).append(f"[{claim.id}](results/{_CLAIMS}.md#{claim.id})")
        listed = [f"*{status[:1].upper()}{status[1:]}*: {', '.join(ids)}" for status, ids in found.items()]
        variants = self.counted(in_the_paper=False, recipes=recipes)
        return ". ".join([*listed, *([f"Variants with another model ({variants})"] if variants else [])])


def k0_like(reading: str) -> str:
    """What a reading of k = 100 is compared with: k = 0, with a constant local rate if it has one."""
    return "k0 constant-rate" if reading.endswith("constant-rate") else "k0"


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


def short(value: float) -> str:
    """101, 41, 0.45."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def falls(values: Sequence[float]) -> bool:
    return all(a > b for a, b in pairwise(values))
