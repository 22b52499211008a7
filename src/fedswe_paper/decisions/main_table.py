"""Claims about Table 2: ten methods under three dynamics."""

from __future__ import annotations

from collections.abc import Sequence

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.margins import (
    CLOSE,
    accuracy,
    ahead,
    lead,
    margin,
    mean_of_methods,
    signed,
    smallest,
)
from fedswe_paper.decisions.scope import STEADY_PLACES, Place, datasets, places
from fedswe_paper.decisions.verdict import Decide, Finding, Look, over, somewhere
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes.labels import label
from fedswe_paper.selection import AIDED, ROWS, STEADY, Selection

_WORST_BY = 4.0  # points; the smallest distance in the paper's table
_TASKS = 9  # three data sets, three dynamics
_EXCEPTION = "svhn, stationary"  # which the paper itself names


def unaided(selection: Selection, place: Place, **variation: float) -> list[PaperCell]:
    """The methods with neither memory nor known statistics, FedSWE aside."""
    return [selection.cell(*place, row, **variation) for row in ROWS if row[0] not in ("fedswe", *AIDED)]


def fedswe(selection: Selection, place: Place, k: float, **variation: float) -> PaperCell:
    return selection.cell(*place, ("fedswe", k), **variation)


def _better_k(
    selection: Selection, measured: Measurements, place: Place, rivals: list[PaperCell], above: float
) -> Finding | None:
    """The better of k = 0 and k = 100 against the closest rival."""
    leads = [(k, lead(measured, fedswe(selection, place, k), rivals)) for k in (0.0, 100.0)]
    known = [(k, found) for k, found in leads if found is not None]
    if len(known) < len(leads):
        return None
    numbers = "; ".join(f"k = {k:g} {signed(by)} against {name}" for k, (name, by) in known)
    return Finding(max(by.mean for _, (_, by) in known) > above, numbers)


def _beats_unaided(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    return _better_k(selection, measured, place, unaided(selection, place), above=0.0)


def _against(other: str, above: float) -> Look[Place]:
    return lambda selection, measured, place: _better_k(
        selection, measured, place, [selection.cell(*place, (other, 0.0))], above
    )


def _all_is_worst(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    others = [selection.cell(*place, row) for row in ROWS if row[0] != "fedavg_all"]
    worst = accuracy(measured, selection.cell(*place, ("fedavg_all", 0.0)))
    above = {label(cell): margin(accuracy(measured, cell), worst) for cell in others}
    next_one = smallest(above)
    if next_one is None:
        return None
    close = {name: by for name, by in above.items() if by is not None and by.mean < _WORST_BY} or dict([next_one])
    text = "; ".join(f"{signed(by)}: {name} minus FedAvg, all" for name, by in close.items())
    return Finding(next_one[1].mean >= _WORST_BY, text)


def _close(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    by = margin(*(accuracy(measured, fedswe(selection, place, k)) for k in (100.0, 0.0)))
    return None if by is None else Finding(abs(by.mean) < CLOSE, f"{signed(by)}: k = 100 minus k = 0")


def _eight_of_nine(findings: Sequence[Finding], complete: bool) -> bool:
    """One exception among all nine tasks; among fewer, only the one the paper names."""
    missed = [finding.place for finding in findings if not finding.holds]
    if complete and len(findings) == _TASKS:
        return len(missed) <= 1
    return set(missed) <= {_EXCEPTION}


def _harder(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
    """The mean of the seven methods without memory or known statistics falls from each dynamics to the next."""
    rows = [row for row in ROWS if row[0] not in AIDED]
    means = [mean_of_methods(measured, [selection.cell(dataset, d, row) for row in rows]) for d in STEADY]
    second, third = margin(means[1], means[0]), margin(means[2], means[1])
    if second is None or third is None:
        return None
    numbers = f"staircase {signed(second)}, sine {signed(third)}, each against the one before; mean of seven methods"
    return Finding(second.mean < 0 and third.mean < 0, numbers)


STEADY_DECISIONS: dict[str, Decide] = {
    "fedswe-beats-unaided": over(STEADY_PLACES, _beats_unaided),
    "k0-above-fedavg": over(STEADY_PLACES, ahead(("fedswe", 0.0), ("fedavg", 0.0))),
    "k100-beats-k0": over(STEADY_PLACES, ahead(("fedswe", 100.0), ("fedswe", 0.0)), _eight_of_nine),
    "k0-and-k100-close-on-stationary-svhn": over(places(("stationary",), "svhn"), _close),
    "fedavg-all-worst": over(STEADY_PLACES, _all_is_worst),
    "dynamics-get-harder": over(datasets(), _harder),
    "sometimes-beats-mifa": over(STEADY_PLACES, _against("mifa", above=0.0), somewhere),
    "competitive-with-known": over(STEADY_PLACES, _against("fedavg_known", above=-CLOSE)),
}
