"""Numbers of the stored runs, by a short description of the run: what a text about them is written with.

"svhn sine k100 eta-g2 server" is FedSWE with k = 100 on SVHN under the sine, in the reading eta-g2, judged by its
server model. The words may also name an algorithm, coordinates (alpha=0.05), the rounds (rounds=5000; otherwise the
longest runs of a line are meant), "train" for the train accuracy, "text" for the profile of the paper's text, "bounded"
for the runs whose gradients were bounded, and "finer" for those repeated in finer arithmetic. Fashion-MNIST is the
small scale.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require
from fedswe.results.table import quantile
from fedswe_paper.cell import BOUNDED, RATES, PaperCell
from fedswe_paper.measurements import Measurements, first_round_of
from fedswe_paper.published import look_up
from fedswe_paper.readings import READINGS
from fedswe_paper.recipes import fair, speedup
from fedswe_paper.recipes.slowdown import first_round
from fedswe_paper.results import FINER, FinishedRun, load_runs
from fedswe_paper.scale import PAPER_SEEDS
from fedswe_paper.selection import PERIODIC, STEADY, Selection
from fedswe_paper.statistics import swing

_OUTPUTS = ("server", "client_mean", "augmented_mean", "ema")
_REPEATED = {"bounded": BOUNDED, "finer": FINER}
_COORDINATES = ("alpha", "gamma", "p", "rate", "hold_out")
_SMALL = "fashion_mnist"
Seeds = Sequence[int]


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


@dataclass(frozen=True)
class Line:
    """A description of runs that differ by their seed."""

    cell: PaperCell  # with seed 0
    output: str
    part: str = "test"
    repeated: str = ""  # BOUNDED or FINER

    @property
    def column(self) -> str:
        return f"{self.output}_{self.part}_accuracy"


@cache
def line_of(text: str) -> Line:
    """The line that the words describe."""
    dataset, dynamics, method, *more = text.split()
    require(dynamics in (*STEADY, *PERIODIC), f"unknown dynamics {dynamics!r} in {text!r}")
    row = ("fedswe", float(method[1:])) if method[1:].isdigit() else (method, 0.0)
    require(row[0] in RATES, f"unknown method {method!r} in {text!r}")
    coordinates: dict[str, float] = {}
    reading, output, part, profile, repeated, rounds = "", "", "test", "released", "", 0
    for word in more:
        key, given, value = word.partition("=")
        if given and key in _COORDINATES:
            coordinates[key] = float(value)
        elif given and key == "rounds":
            rounds = int(value)
        elif word in READINGS:
            reading = word
        elif word in _OUTPUTS:
            output = word
        elif word == "train":
            part = word
        elif word == "text":
            profile = "paper"
        elif word in _REPEATED:
            repeated = _REPEATED[word]
        else:
            raise FedsweError(f"unknown word {word!r} in {text!r}")
    selection = Selection(
        "small" if dataset == _SMALL else "full", "paper" if profile == "paper" else "released", rounds=rounds
    )
    cell = selection.cell(dataset, dynamics, row, reading=reading, **coordinates)  # type: ignore[arg-type]
    return Line(cell, output or cell.judged_by, part, repeated)


def level(by_seed: dict[int, float]) -> Number:
    """Mean and standard deviation over seeds."""
    values = list(by_seed.values())
    return Number(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, tuple(by_seed))


def paired(ours: dict[int, float], theirs: dict[int, float]) -> Number:
    """Mean and standard error of ours minus theirs; both must have the same seeds."""
    require(
        ours.keys() == theirs.keys(),
        f"seeds {sorted(ours)} are compared with seeds {sorted(theirs)}: name the seeds that both have",
    )
    apart = level({seed: ours[seed] - theirs[seed] for seed in ours})
    error = None if apart.spread is None else apart.spread / math.sqrt(len(ours))
    return replace(apart, spread=error, signed=True)


@dataclass(frozen=True)
class StoredNumbers:
    """All numbers in percent, or points of it, unless a method says otherwise."""

    out: Path
    _runs: dict[tuple[str, str], list[FinishedRun]] = field(default_factory=dict)  # that have been read
    _measured: dict[tuple[str, str, Seeds], Measurements] = field(default_factory=dict)

    # runs ---------------------------------------------------------------------------------------------------
    @cached_property
    def _repeated(self) -> dict[str, Measurements]:
        return {how: Measurements(load_runs(self.out, f"full-released-{how}")) for how in _REPEATED.values()}

    def measurements(self, scale: str, profile: str, seeds: Seeds = ()) -> Measurements:
        """The runs of these seeds; of all seeds if none are named."""
        kind = (scale, profile)
        if kind not in self._runs:
            self._runs[kind] = load_runs(self.out, "-".join(kind))
        if (*kind, seeds) not in self._measured:
            runs = (run for run in self._runs[kind] if not seeds or run.cell.seed in seeds)
            self._measured[*kind, seeds] = Measurements(runs)
        return self._measured[*kind, seeds]

    def runs(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, FinishedRun]:
        """By seed; it is an error if one is missing. So runs of one seed and of three are never mixed."""
        line = line_of(text)
        if line.repeated:
            runs = self._repeated[line.repeated].of(line.cell)
        else:
            runs = self.measurements(line.cell.scale, line.cell.profile).scored(line.cell)
        found = {run.cell.seed: run for run in runs if run.cell.seed in seeds}
        require(len(found) == len(seeds), f"{text}: of the seeds {list(seeds)}, {sorted(found)} are stored")
        return found

    def rounds(self, text: str, seeds: Seeds = PAPER_SEEDS) -> int:
        """The length of these runs; runs that are up to 1 % shorter count as long as the others."""
        return max(int(run.history.last["round"]) for run in self.runs(text, seeds).values())

    def diverged(self, text: str, seeds: Seeds = PAPER_SEEDS) -> list[int]:
        """The seeds whose run ended in NaN or infinity."""
        return [seed for seed, run in self.runs(text, seeds).items() if run.diverged]

    def finite(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, FinishedRun]:
        """The runs, of which none diverged."""
        lost = self.diverged(text, seeds)
        require(not lost, f"{text} diverged with seeds {lost}: it has no scores")
        return self.runs(text, seeds)

    # scores -------------------------------------------------------------------------------------------------
    def by_seed(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, float]:
        """Accuracy over the last rounds."""
        line = line_of(text)
        return {s: run.score(f"{line.part}_accuracy", line.output) for s, run in self.finite(text, seeds).items()}

    def score(self, text: str, seeds: Seeds = PAPER_SEEDS) -> Number:
        return level(self.by_seed(text, seeds))

    def gap(self, ours: str, theirs: str, seeds: Seeds = PAPER_SEEDS) -> Number:
        """Ours minus theirs; both must have the same length."""
        lengths = [self.rounds(text, seeds) for text in (ours, theirs)]
        require(min(lengths) >= 0.99 * max(lengths), f"{ours} has {lengths[0]} rounds, {theirs} has {lengths[1]}")
        return paired(self.by_seed(ours, seeds), self.by_seed(theirs, seeds))

    def published(self, text: str) -> Number:
        """The paper's number: of Table 2, or of Tables 8 and 9 where gamma or alpha is named."""
        line = line_of(text)
        cell = line.cell
        table, by = "table2", {}
        for key, other in (("alpha", "table9"), ("gamma", "table8")):
            if f" {key}=" in text:
                table, by = other, {key: getattr(cell, key)}
        k = {"k": cell.k} if cell.algorithm == "fedswe" else {}
        found = look_up(table, dataset=cell.dataset, dynamics=cell.dynamics, algorithm=cell.algorithm, **k, **by)
        if found is None:
            raise FedsweError(f"the paper has no number for {text}")
        return Number(found.values[line.part].mean, found.values[line.part].std)

    def off(self, text: str) -> Number:
        """Ours minus the published number."""
        return Number(self.score(text).mean - self.published(text).mean, signed=True)

    def far_off(self, text: str) -> bool:
        """Whether ours and the published level differ beyond noise: by Welch's t, at the level of 95 %."""
        ours, theirs = self.score(text), self.published(text)
        require(ours.spread is not None and theirs.spread is not None, f"{text}: both levels need a spread")
        parts = [(number.spread or 0.0) ** 2 / len(PAPER_SEEDS) for number in (ours, theirs)]  # the paper has 3, too
        freedom = (len(PAPER_SEEDS) - 1) * sum(parts) ** 2 / sum(part**2 for part in parts)
        return abs(ours.mean - theirs.mean) > quantile(freedom) * math.sqrt(sum(parts))

    def both(self, text: str) -> str:
        """Ours / the paper's."""
        return f"{self.score(text)} / {self.published(text).plain}"

    def first(self, text: str, target: float) -> str:
        """The first evaluated round at which the curve averaged over seeds reaches so many percent, as in Table 7."""
        line = line_of(text)
        cell = line.cell
        found = first_round(cell, self.measurements(cell.scale, cell.profile), target, line.output)
        if found is None:
            raise FedsweError(f"{text} has not been run")
        return f"{found.mean:.0f}" if math.isfinite(found.mean) else "never"

    def arrivals(self, text: str, target: float, seeds: Seeds = PAPER_SEEDS) -> dict[int, str]:
        """The first evaluated round at which a run reaches so many percent, by seed; the run may diverge later."""
        output, runs = line_of(text).output, self.runs(text, seeds)
        found = {seed: first_round_of(run, target / 100, output) for seed, run in runs.items()}
        require(not any(map(math.isnan, found.values())), f"{text} diverged before it reached {target} %")
        return {seed: f"{rounds:.0f}" if math.isfinite(rounds) else "never" for seed, rounds in found.items()}

    def published_first(self, text: str, target: float) -> str:
        """The paper's round in Table 7."""
        cell = line_of(text).cell
        k = {"k": cell.k} if cell.algorithm == "fedswe" else {}
        found = look_up("table7", dataset=cell.dataset, algorithm=cell.algorithm, target=target, **k)
        if found is None:
            raise FedsweError(f"Table 7 of the paper has no number for {text}, {target} %")
        return f"{found.values['rounds'].mean:.0f}"

    # within a run ---------------------------------------------------------------------------------------------
    def tail(self, text: str, column: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, npt.NDArray[np.float64]]:
        """A column of the history over the last rounds, by seed."""
        found = {}
        for seed, run in self.finite(text, seeds).items():
            rows = run.history["round"] > run.history.last["round"] - run.cell.experiment().evaluate.tail
            found[seed] = run.history[column][rows]
        return found

    def swing(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, float]:
        """Standard deviation of the accuracy over the last rounds, by seed."""
        return {seed: 100 * float(np.std(v)) for seed, v in self.tail(text, line_of(text).column, seeds).items()}

    def swing_at_one_phase(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, float]:
        """What the claims on turns of groups call swing: about a line, once a period, as the paper plots it."""
        return {seed: swing(line_of(text).output).of(run) for seed, run in self.finite(text, seeds).items()}

    def swing_gap_at_one_phase(self, ours: str, theirs: str) -> Number:
        """By how much more ours swings than theirs."""
        return paired(self.swing_at_one_phase(ours), self.swing_at_one_phase(theirs))

    def extremes(self, text: str, seeds: Seeds) -> str:
        """The lowest and the highest accuracy of the last rounds."""
        (values,) = self.tail(text, line_of(text).column, seeds).values()
        return f"{100 * values.min():.0f} and {100 * values.max():.0f}"

    def peak(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, float]:
        """The highest accuracy of the run, by seed."""
        return {s: 100 * float(run.history[line_of(text).column].max()) for s, run in self.finite(text, seeds).items()}

    def consensus(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, float]:
        """Mean squared distance of the clients' models from their mean over the last rounds, by seed."""
        return {s: float(np.mean(v)) for s, v in self.tail(text, "consensus_clients", seeds).items()}

    def consensus_at_first(self, text: str, seeds: Seeds = PAPER_SEEDS) -> dict[int, float]:
        """The same over the first tenth of the rounds, without the start, at which all models are equal."""
        found = {}
        for seed, run in self.finite(text, seeds).items():
            t = run.history["round"]
            early = (t > 0) & (t <= run.history.last["round"] / 10)
            found[seed] = float(np.mean(run.history["consensus_clients"][early]))
        return found

    def at(self, text: str, t: int, column: str = "", seed: int = 3) -> float:
        """One evaluation: the accuracy, or another column as it is stored. The run may have diverged later."""
        run = self.runs(text, [seed])[seed]
        (value,) = run.curve(column or line_of(text).column)[run.history["round"] == t]
        require(math.isfinite(value), f"{text} has diverged before round {t}")
        return float(value) if column else 100 * float(value)

    def last_finite(self, text: str, seed: int = 3) -> int:
        """The last evaluated round whose losses are all finite."""
        run = self.runs(text, [seed])[seed]
        return int(run.history["round"][run.finite_rows - 1])

    # the same tuning for all --------------------------------------------------------------------------------------
    def tuned(self, text: str, seeds: Seeds = PAPER_SEEDS) -> tuple[str, Number]:
        """The local rate that these seeds choose on held-out data for the judged model, and the test accuracy."""
        rate, by_seed = self._tuned(text, seeds)
        return f"{rate:g}".lstrip("0"), level(by_seed)

    def tuned_gap(self, ours: str, theirs: str, seeds: Seeds = PAPER_SEEDS) -> Number:
        return paired(self._tuned(ours, seeds)[1], self._tuned(theirs, seeds)[1])

    def _tuned(self, text: str, seeds: Seeds) -> tuple[float, dict[int, float]]:
        line = line_of(text)
        cell, measured = line.cell, self.measurements(line.cell.scale, line.cell.profile, tuple(seeds))
        selection = Selection(cell.scale, cell.profile)
        tried = fair.tried(selection, cell.dataset, cell.dynamics, cell.alpha, (cell.algorithm, cell.k), cell.reading)
        best = fair.tuned(tried, measured, line.output)
        if best is None:
            raise FedsweError(f"{text}: not every rate has been run with the seeds {list(seeds)}")
        by_seed = measured.scores(best, "test_accuracy", line.output)
        require(sorted(by_seed) == sorted(seeds), f"{text}: of the seeds {list(seeds)}, {sorted(by_seed)} are stored")
        return best.rate, by_seed

    # exact --------------------------------------------------------------------------------------------------------
    def speedup(self, what: str, p: str, target: str) -> dict[int, float]:
        """Share of the linear speed-up in percent, by the number of clients or of local steps."""
        wanted = (what, float(p), float(target))
        found = [line for line in speedup.lines() if (line.what, line.p, line.target) == wanted]
        require(bool(found), f"there is no speed-up of {what}, p = {p}, target {target}")
        return {size: 100 * round(share, 4) for size, share in zip(found[0].sizes, found[0].efficiency, strict=True)}

    def digits_rounds(self, what: str) -> dict[int, float]:
        """Rounds on the digits at the best rate: by clients, with 2 local steps, or by local steps, with 8 clients."""
        with (self.out / "speedup-digits.csv").open(newline="") as text:
            rows = list(csv.DictReader(text))
        varied, other, fixed = {"clients": ("clients", "steps", 2), "local steps": ("steps", "clients", 8)}[what]
        found = {int(row[varied]): row for row in rows if int(row[other]) == fixed}
        rates = [name for name in rows[0] if name.startswith("rate ")]
        return {size: min(float(found[size][rate]) for rate in rates) for size in sorted(found)}

    def compared(self, file: str, algorithm: str, model: str) -> tuple[str, Number]:
        """Rate and test accuracy of a stored summary of fedswe compare."""
        with (self.out / file).open(newline="") as text:
            for row in csv.DictReader(text):
                if (row["algorithm"], row["model"]) == (algorithm, model):
                    mean, std = (100 * float(row[f"test_accuracy_{part}"]) for part in ("mean", "std"))
                    return row["local_lr"].lstrip("0"), Number(mean, std)
        raise FedsweError(f"{file} has no row of {algorithm}, {model}")


# text ---------------------------------------------------------------------------------------------------------
def listed(numbers: Iterable[object], last: str = ", ") -> str:
    """a, b, c"""
    *first, end = [str(number) for number in numbers]
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
    return "\n".join(_bars(row) for row in (heads, ["---"] * len(heads), *lines))


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Lines "label: words" of a table, one a row."""
    for row in text.strip().splitlines():
        label, _, words = row.partition(":")
        yield label.strip(), words.strip()
