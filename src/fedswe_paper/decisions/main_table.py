"""Claims about Table 2: ten methods under three dynamics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.margin import Margin, margin, numbers
from fedswe_paper.decisions.scope import STEADY_PLACES, Place, datasets, places
from fedswe_paper.decisions.statistics import CLOSE, accuracy, ahead, lead, smoother, training
from fedswe_paper.decisions.verdict import MODELS, Decide, Finding, Look, at_each_model, at_least, every, over
from fedswe_paper.measurements import Measurements
from fedswe_paper.published import look_up
from fedswe_paper.selection import AIDED, ROWS, STEADY, Row, Selection

_K0: Row = ("fedswe", 0.0)
_K100: Row = ("fedswe", 100.0)
_FEDAVG: Row = ("fedavg", 0.0)
_KNOWN: Row = ("fedavg_known", 0.0)
_EXCEPTION = ("svhn", "stationary")  # which the paper itself names


def unaided(selection: Selection, place: Place, **variation: float) -> list[PaperCell]:
    """The methods with neither memory nor known statistics, FedSWE aside."""
    return [selection.cell(*place, row, **variation) for row in ROWS if row[0] not in ("fedswe", *AIDED)]


def _beats_unaided(row: Row, output: str | None) -> Look[Place]:
    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        rivals, note = training(measured, unaided(selection, place))
        return every([lead(measured, selection.cell(*place, row), rival, output) for rival in rivals], note)

    return look


def _some_k_beats(other: Row, output: str | None) -> Look[Place]:
    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        rival = selection.cell(*place, other)
        return at_least(1, [lead(measured, selection.cell(*place, row), rival, output) for row in (_K0, _K100)])

    return look


def _all_is_worst(output: str | None) -> Look[Place]:
    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        worst = selection.cell(*place, ("fedavg_all", 0.0))
        others, note = training(measured, [selection.cell(*place, row) for row in ROWS if row[0] != "fedavg_all"])
        return every([lead(measured, other, worst, output) for other in others], note)

    return look


def _close(output: str) -> Look[Place]:
    """Both ways at most so far apart."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        k0, k100 = (selection.cell(*place, row) for row in (_K0, _K100))
        return every([lead(measured, k100, k0, output, -CLOSE), lead(measured, k0, k100, output, -CLOSE)])

    return look


def _all_but_the_exception(selection: Selection) -> list[Place]:
    return [place for place in STEADY_PLACES(selection) if place != _EXCEPTION]


def _published_close(ours: Row, theirs: Row) -> Callable[[Selection], list[Place]]:
    """All but the places where the paper's own table has the one method more than CLOSE behind the other."""

    def behind(dataset: str, dynamics: str) -> bool:
        a, b = (look_up("table2", dataset=dataset, dynamics=dynamics, algorithm=m, k=k) for m, k in (ours, theirs))
        return a is not None and b is not None and a.values["test"].mean < b.values["test"].mean - CLOSE

    return lambda selection: [place for place in STEADY_PLACES(selection) if not behind(*place)]


def _fluctuates_less(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    return every([smoother(measured, selection.cell(*place, _K100), selection.cell(*place, _K0), "server")])


def mean_fall(
    what: str, measured: Measurements, before: Sequence[PaperCell], after: Sequence[PaperCell], output: str | None
) -> Margin | None:
    """Mean test accuracy of all the cells before, minus that of those after."""
    at = f"all at the {MODELS[output]}" if output else "each at its judged model"
    terms = [(1 / len(before), numbers(measured, cell, accuracy(output))) for cell in before]
    terms += [(-1 / len(after), numbers(measured, cell, accuracy(output))) for cell in after]
    return margin(f"{what}, mean of {len(before)} methods, {at}", terms)


def _harder(output: str | None) -> Look[str]:
    """The mean of the methods without memory or known statistics falls from each dynamics to the next."""

    def look(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
        table = [[selection.cell(dataset, d, row) for d in STEADY] for row in ROWS if row[0] not in AIDED]
        trained, note = training(measured, [cell for cells in table for cell in cells])
        rows = [cells for cells in table if all(cell in trained for cell in cells)]
        if not rows:
            return None
        cells = list(zip(*rows, strict=True))
        steps = zip(STEADY, STEADY[1:], cells, cells[1:], strict=False)
        return every(
            [mean_fall(f"{easier} minus {harder}", measured, a, b, output) for easier, harder, a, b in steps], note
        )

    return look


STEADY_DECISIONS: dict[str, Decide] = {
    **at_each_model("k0-beats-unaided", STEADY_PLACES, partial(_beats_unaided, _K0)),
    **at_each_model("k100-beats-unaided", STEADY_PLACES, partial(_beats_unaided, _K100)),
    **at_each_model("k0-above-fedavg", STEADY_PLACES, partial(ahead, _K0, _FEDAVG, 0.0)),
    "k100-beats-k0-client-mean": over(_all_but_the_exception, ahead(_K100, _K0, 0.0, "client_mean")),
    "k100-beats-k0-server": over(_all_but_the_exception, ahead(_K100, _K0, 0.0, "server")),
    "close-on-stationary-svhn-client-mean": over(places(("stationary",), "svhn"), _close("client_mean")),
    "close-on-stationary-svhn-server": over(places(("stationary",), "svhn"), _close("server")),
    "k100-fluctuates-less-than-k0": over(STEADY_PLACES, _fluctuates_less),
    **at_each_model("fedavg-all-worst", STEADY_PLACES, _all_is_worst),
    **at_each_model("dynamics-get-harder", datasets(), _harder),
    **at_each_model("sometimes-beats-mifa", STEADY_PLACES, partial(_some_k_beats, ("mifa", 0.0)), somewhere=True),
    **at_each_model("k0-competitive-with-known", _published_close(_K0, _KNOWN), partial(ahead, _K0, _KNOWN, -CLOSE)),
    **at_each_model(
        "k100-competitive-with-known", _published_close(_K100, _KNOWN), partial(ahead, _K100, _KNOWN, -CLOSE)
    ),
}
