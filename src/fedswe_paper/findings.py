"""Write experiments/FINDINGS.md and DETAILS.md from their templates: every number is computed from the stored runs.

    python -m fedswe_paper.findings            in the root of the repository

A template is Markdown in which {{ ... }} is a Python expression over the names below; `sure(...)` there stops the
rendering where what the words beside it say is no longer so. Templates are part of the repository, as trusted as code.
"""

from __future__ import annotations

import csv
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole
from fedswe_paper.recipes.accuracy_tables import ALPHAS, GAMMAS
from fedswe_paper.recipes.periodic import BASELINES
from fedswe_paper.recipes.slowdown import targets_of
from fedswe_paper.scale import PAPER_SEEDS, SCALES
from fedswe_paper.selection import AIDED, CONFERENCE, ROWS, STEADY
from fedswe_paper.stored_numbers import Number, StoredNumbers, level, line_of, listed, paired, pairs, span, table

TEXTS = ("FINDINGS.md", "DETAILS.md")
EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_WIDTH = 120
_SETS = ("svhn", "cifar10")  # that have been measured at full scale


def rendered(template: str, names: dict[str, Any]) -> str:
    """The text, its expressions replaced by their values, its paragraphs filled."""

    def value(found: re.Match[str]) -> str:
        expression = found[1].strip()
        try:
            return str(eval(f"({expression})", dict(names)))
        except Exception as error:
            error.add_note(f"in {{{{ {expression} }}}}")
            raise

    blocks = (EXPRESSION.sub(value, block).strip() for block in re.split(r"\n\n+", template))
    return "\n\n".join(_filled(block) for block in blocks if block) + "\n"


def _filled(block: str) -> str:
    """A paragraph or list in lines of at most 120 characters; heads, tables and code stay as they are."""
    if block.startswith(("#", "|", "```")):
        return block
    items = re.split(r"\n(?=- )", block)
    return "\n".join(
        textwrap.fill(
            " ".join(item.split()),
            _WIDTH,
            subsequent_indent="  " if item.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for item in items
    )


def names(stored: StoredNumbers) -> dict[str, Any]:
    """What an expression may use."""

    def over(f: Callable[..., Any], *lines: str) -> list[Any]:
        """A function of lines, under each of the three dynamics."""
        return [f(*(line.replace("*", dynamics) for line in lines)) for dynamics in STEADY]

    def columns(f: Callable[..., Any], *methods: str) -> list[Any]:
        """A function of lines, in each of the six columns of Table 2."""
        return [value for dataset in _SETS for value in over(f, *(f"{dataset} * {method}" for method in methods))]

    def nearest(method: str) -> str:
        """How far from the published number at most, in the six columns."""
        return str(max((abs(n) for n in columns(stored.off, method)), key=lambda n: n.mean))

    def spreads(f: Callable[[str], Number], method: str) -> str:
        """The smallest and the largest standard deviation over seeds of the six columns."""
        return span(Number(n.spread) for n in columns(f, method) if n.spread is not None)

    def published_gap(ours: str, theirs: str) -> Number:
        return Number(stored.published(ours).mean - stored.published(theirs).mean, signed=True)

    def steadier(output: str) -> list[float]:
        """Fluctuation of k = 0 over that of k = 100, in every column and with every seed."""
        swings = zip(columns(stored.swing, f"k0 {output}"), columns(stored.swing, f"k100 {output}"), strict=True)
        return [plain[seed] / steady[seed] for plain, steady in swings for seed in plain]

    with (stored.out / "full-released" / "claims.csv").open(newline="") as text:
        verdicts = {row["id"]: row["status"] for row in csv.DictReader(text)}

    def verdict(*claims: str) -> str:
        page = "results/full-released/claims.md"
        return "; ".join(f"[{claim}]({page}#{claim}) {verdicts[claim]}" for claim in claims)

    def swings(line: str) -> str:
        """Fluctuation of server model and client mean, mean over seeds."""
        return "; ".join(f"{mean(stored.swing(f'{line} {o}').values()):.1f}" for o in ("server", "client_mean"))

    def mean_change(dataset: str, before: str, after: str) -> Number:
        """Of the mean accuracy of the seven methods without memory or known statistics."""
        rows = [f"k{k:g}" if name == "fedswe" else name for name, k in ROWS if name not in AIDED]
        first, second = (
            {seed: mean(stored.by_seed(f"{dataset} {dynamics} {row}")[seed] for row in rows) for seed in PAPER_SEEDS}
            for dynamics in (before, after)
        )
        return paired(second, first)

    def shown(line: str) -> str:
        """The accuracy with seed 3 in a table that has gaps; without a judged model, the consensus error."""
        try:
            lost = stored.diverged(line, [3])
        except FedsweError:
            return ""
        if line.endswith(" "):
            return _short(stored.consensus(line, [3])[3]) if line_of(line).cell.algorithm == "fedswe" else ""
        return "NaN" if lost else str(stored.score(line, [3]))

    def chosen(line: str, seeds: Sequence[int]) -> str:
        rate, accuracy = stored.tuned(line, seeds)
        return f"{accuracy} [{rate}]"

    def lowest_with(fewest: int, most: int) -> str:
        """Of FedAvg's server model in the last rounds of one run of Figure 3, after rounds with so many clients."""
        line = "svhn sine fedavg p=1 gamma=0.5 server"
        available, accuracy = (stored.tail(line, column, [3])[3] for column in ("available", line_of(line).column))
        return f"{100 * accuracy[(available >= fewest) & (available <= most)].min():.1f}"

    def ahead_with_every_seed(ours: str, theirs: str) -> bool:
        mine, others = stored.by_seed(ours), stored.by_seed(theirs)
        return mine.keys() == others.keys() and all(mine[seed] > others[seed] for seed in mine)

    def share(facts: Iterable[bool]) -> str:
        """How many of them hold: 17 of 18."""
        counted = list(facts)
        return f"{sum(counted)} of {len(counted)}"

    methods = ("score", "gap", "published", "off", "both", "first", "by_seed", "tail", "swing", "extremes", "peak")
    more = ("consensus", "at", "last_finite", "diverged", "tuned", "tuned_gap", "compared")
    return {
        **{name: getattr(stored, name) for name in (*methods, *more)},
        "over": over, "columns": columns, "nearest": nearest, "spreads": spreads, "published_gap": published_gap,
        "swings": swings, "mean_change": mean_change, "shown": shown, "chosen": chosen, "lowest_with": lowest_with,
        "steadier": steadier, "ahead_with_every_seed": ahead_with_every_seed, "falls": _falls, "verdict": verdict, "verdicts": Counter(verdicts.values()),
        "Number": Number, "level": level, "paired": paired, "listed": listed, "span": span, "median": median,
        "table": table, "pairs": pairs, "sure": _sure, "by": _by, "share": share, "short": _short,
        "steady": STEADY, "alphas": ALPHAS, "gammas": GAMMAS, "ks": [int(k) for k in SCALES["full"].ks],
        "unaided": [name for name, _ in CONFERENCE if name not in ("fedswe", *AIDED)],
        "readings": ("k100", "k100 eta-g2", "k100 active-progress"),
        "k_readings": [
            ("k = 0", "k0"), ("k = 100, Algorithm 1", "k100"), ("k = 100, global rate 2", "k100 eta-g2"),
            ("k = 100, progress over active", "k100 active-progress"),
        ],
        "fig3_seeds": ((0.1, (3, 4, 6)), (0.3, (3, 4)), (0.5, (3, 4)), (1, (3,))),
        "targets": {dataset: targets_of(dataset) for dataset in _SETS},
        "baselines": [name for name, _ in BASELINES],
    }  # fmt: skip


def _by(*numbers: Number) -> str:
    """How far ahead: without a sign, and an error where it is no longer so."""
    require(all(number.mean > 0 for number in numbers), f"no longer ahead: {listed(numbers)}")
    return listed(abs(number) for number in numbers)


def _falls(values: Sequence[float]) -> bool:
    return all(a > b for a, b in pairwise(values))


def _short(value: float) -> str:
    """With two or three digits: 101, 41, 0.45."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _sure(*facts: bool) -> str:
    """Nothing, where all facts hold."""
    require(all(facts), f"no longer so: facts {[i for i, fact in enumerate(facts) if not fact]}, counted from 0")
    return ""


def main(folder: Path = Path("experiments")) -> None:
    found = names(StoredNumbers(folder / "results"))
    for name in TEXTS:
        write_whole(folder / name, rendered((folder / "templates" / name).read_text(), found))
        print(folder / name)


if __name__ == "__main__":
    main()
