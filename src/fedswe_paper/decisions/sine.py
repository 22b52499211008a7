"""Claims about the sine alone: Figure 3 and Tables 7, 8 and 9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.main_table import mean_fall, unaided
from fedswe_paper.decisions.margin import Margin, difference, margin, numbers
from fedswe_paper.decisions.scope import SVHN_SINE, Place, datasets
from fedswe_paper.decisions.statistics import above, accuracy, arrival, named, peak
from fedswe_paper.decisions.verdict import Decide, Finding, Look, at_each_model, every, over
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes import accuracy_tables, motivating, slowdown
from fedswe_paper.selection import AIDED, CONFERENCE, Row, Selection

SLOWER = 1.5  # times the rounds: a significant slowdown; the paper gives no number
_COMPARABLE = 1.1  # times the rounds: comparable; the paper gives no number
_DROP = 10.0  # points, as the paper says of Figure 3
_K0: Row = ("fedswe", 0.0)
_FEDAVG: Row = ("fedavg", 0.0)


# Figure 3 ---------------------------------------------------------------------------------------------------
def _drop(
    selection: Selection, measured: Measurements, dataset: str, p: float, part: str, output: str, above: float = 0.0
) -> Margin | None:
    """The shallowest sine minus the deepest."""
    shallow, deep = min(motivating.GAMMAS), max(motivating.GAMMAS)
    cells = [motivating.line(selection, dataset, p, gamma) for gamma in (shallow, deep)]
    what = f"p = {p:g}, {part}: gamma {shallow:g} minus gamma {deep:g}, {named(cells[0], output)}"
    one, other = (numbers(measured, cell, accuracy(output, part)) for cell in cells)
    return difference(what, one, other, above)


def _costs(output: str) -> Look[str]:
    def look(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
        p = min(motivating.PROBABILITIES)
        return every([_drop(selection, measured, dataset, p, part, output, _DROP) for part in ("train", "test")])

    return look


def _hurts(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
    return every([_drop(selection, measured, dataset, p, "test", "server") for p in motivating.PROBABILITIES])


# Table 7 ------------------------------------------------------------------------------------------------------
def in_time(
    measured: Measurements,
    ours: PaperCell,
    theirs: PaperCell,
    target: float,
    within: float,
    output: str | None = None,
) -> Margin | None:
    """Rounds to a test accuracy: so many times the other's, minus ours."""
    times = "rounds" if within == 1 else f"{within:g} times the rounds"
    what = f"to {100 * target:g} %: {times} of {named(theirs, output)} minus those of {named(ours, output)}"
    terms = [(within, theirs), (-1.0, ours)]
    return margin(what, [(w, numbers(measured, c, arrival(c, target, output))) for w, c in terms], unit="rounds")


def _racers(selection: Selection, dataset: str) -> list[PaperCell]:
    """FedSWE (k = 0) and FedAvg over active clients."""
    return [selection.cell(dataset, "sine", row) for row in (_K0, _FEDAVG)]


def _at_the_last_reached(rivals: Sequence[Row], output: str | None) -> Look[str]:
    """At the last target that FedAvg reaches: the first ones are a matter of one or two evaluations."""

    def look(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
        ours, fedavg = _racers(selection, dataset)
        others = [selection.cell(dataset, "sine", row) for row in rivals]
        for target in reversed(slowdown.targets_of(dataset)):
            first = slowdown.first_round(fedavg, measured, target, output)
            if first is not None and 0 < first.mean < math.inf:
                return every([in_time(measured, ours, theirs, target / 100, SLOWER, output) for theirs in others])
        return None

    return look


def _lags_at_first(output: str | None) -> Look[str]:
    """The mean over the first three of four targets."""

    def look(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
        ours, theirs = _racers(selection, dataset)
        targets = slowdown.targets_of(dataset)[:-1]
        first = slowdown.first_round(theirs, measured, targets[0], output)
        if first is None or not math.isfinite(first.mean):
            return None
        terms = [
            (sign / len(targets), numbers(measured, cell, arrival(cell, target / 100, output)))
            for sign, cell in ((1.0, ours), (-1.0, theirs))
            for target in targets
        ]
        listed = ", ".join(f"{target} %" for target in targets)
        what = f"mean over {listed}: rounds of {named(ours, output)} minus those of {named(theirs, output)}"
        return every([margin(what, terms, unit="rounds")])

    return look


def _last_target(within: float, slower: bool, output: str | None) -> Look[str]:
    """FedSWE within so many times the rounds of FedAvg, or beyond them."""

    def look(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
        ours, theirs = _racers(selection, dataset)
        target = slowdown.targets_of(dataset)[-1]
        arrived = [slowdown.first_round(cell, measured, target, output) for cell in (ours, theirs)]
        if not any(one is not None and not math.isinf(one.mean) for one in arrived):
            return None
        one, other = (theirs, ours) if slower else (ours, theirs)
        return every([in_time(measured, one, other, target / 100, within, output)])

    return look


def _all_never_arrives(output: str | None) -> Look[str]:
    def look(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
        target = slowdown.targets_of(dataset)[-1]
        margins = []
        for row in CONFERENCE:
            cell = selection.cell(dataset, "sine", row)
            never = cell.algorithm == "fedavg_all"
            best = numbers(measured, cell, above(peak(output), target))
            what = f"highest test accuracy of {named(cell, output)} {'below' if never else 'above'} {target} %"
            margins.append(margin(what, [(-1.0 if never else 1.0, best)]))
        return every(margins)

    return look


# Tables 8 and 9 -------------------------------------------------------------------------------------------------
def _leads_for_every(
    name: str, values: Sequence[float], parts: Sequence[str], output: str | None, mifa: bool = False
) -> Look[Place]:
    """FedSWE (k = 0) against the unaided methods of these tables, or against MIFA."""

    def rivals(selection: Selection, place: Place, value: float) -> list[PaperCell]:
        if mifa:
            return [selection.cell(*place, ("mifa", 0.0), **{name: value})]
        return [c for c in unaided(selection, place, **{name: value}) if c.algorithm != "gfedavg"]

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        margins = []
        for value in values:
            ours = selection.cell(*place, _K0, **{name: value})
            for rival in rivals(selection, place, value):
                for part in parts:
                    what = f"{name} {value:g}, {part}: {named(ours, output)} minus {named(rival, output)}"
                    one, other = (numbers(measured, cell, accuracy(output, part)) for cell in (ours, rival))
                    margins.append(difference(what, one, other))
        return every(margins)

    return look


def _rises_with_alpha(output: str | None) -> Look[Place]:
    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        alphas = accuracy_tables.ALPHAS
        rows = [[selection.cell(*place, row, alpha=alpha) for row in CONFERENCE] for alpha in alphas]
        return every(
            [
                mean_fall(f"alpha {high:g} minus alpha {low:g}", measured, more, less, output)
                for low, high, less, more in zip(alphas, alphas[1:], rows, rows[1:], strict=False)
            ]
        )

    return look


_UNAIDED = [row for row in CONFERENCE if row != _K0 and row[0] not in AIDED]
_TEST, _BOTH = ("test",), ("train", "test")

SINE_DECISIONS: dict[str, Decide] = {
    "gamma-costs-fedavg-accuracy": over(datasets("svhn"), _costs("server")),
    "gamma-costs-fedavg-accuracy-client-mean": over(datasets("svhn"), _costs("client_mean")),
    "non-stationarity-hurts": over(datasets("svhn"), _hurts),
    **at_each_model("no-slowdown-against-fedavg", datasets(), partial(_at_the_last_reached, [_FEDAVG])),
    **at_each_model("no-slowdown", datasets(), partial(_at_the_last_reached, _UNAIDED)),
    **at_each_model("slower-at-first", datasets(), _lags_at_first),
    **at_each_model(
        "no-slowdown-at-the-last-target", datasets("svhn", "cinic10"), partial(_last_target, _COMPARABLE, False)
    ),
    **at_each_model("slower-on-cifar10", datasets("cifar10"), partial(_last_target, 1.0, True)),
    **at_each_model("fedavg-all-never-arrives", datasets(), _all_never_arrives),
    **at_each_model("every-gamma", SVHN_SINE, partial(_leads_for_every, "gamma", accuracy_tables.GAMMAS, _TEST)),
    **at_each_model("every-alpha", SVHN_SINE, partial(_leads_for_every, "alpha", accuracy_tables.ALPHAS, _BOTH)),
    **at_each_model("accuracy-rises-with-alpha", SVHN_SINE, _rises_with_alpha),
    **at_each_model(
        "beats-mifa-for-larger-alpha", SVHN_SINE, partial(_leads_for_every, "alpha", (0.1, 1.0), _TEST, mifa=True)
    ),
}
