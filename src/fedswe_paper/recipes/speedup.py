"""Linear speed-up in clients and local steps, the remark after the corollary: exact, on noisy quadratics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from fedswe.plotting import GREY, WIDTHS, Chart, count_axis, csv_text, format_axes, line_styles
from fedswe.theory.moments import rounds_needed
from fedswe_paper.measurements import Measurements
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIENTS = tuple(2**i for i in range(1, 10))
STEPS = tuple(2**i for i in range(8))
FIXED_CLIENTS, FIXED_STEPS = 16, 2
SIGMA, SPREAD = 3.0, 1.0
_CASES = ((1.0, 0.003), (0.5, 0.003), (0.1, 0.003), (0.5, 0.03))  # availability and target


@dataclass(frozen=True)
class Line:
    """The rounds that reach a target, for growing numbers of clients or of local steps."""

    what: str  # clients or local steps
    p: float
    target: float
    sizes: tuple[int, ...]
    rounds: tuple[float, ...]

    @property
    def efficiency(self) -> tuple[float, ...]:
        """The speed-up over the smallest size, over the linear one."""
        return tuple(
            self.rounds[0] * self.sizes[0] / (n * size) for n, size in zip(self.rounds, self.sizes, strict=True)
        )

    def note(self) -> str:
        """Up to where the speed-up is linear, within a tenth and within a half, and where rounds grow again."""
        parts = [f"{self.what}, p = {self.p:g}, target {self.target:g}:"]
        for least in (0.9, 0.5):
            good = [size for size, share in zip(self.sizes, self.efficiency, strict=True) if share >= least]
            parts.append(f"at least {100 * least:.0f} % of linear up to {max(good)},")
        best = self.sizes[int(np.argmin(self.rounds))]
        parts.append("still fewer rounds at the largest" if best == self.sizes[-1] else f"fewest rounds at {best}")
        return " ".join(parts)


@cache
def lines() -> tuple[Line, ...]:
    """FedSWE with k = m, sigma = 3, optima of spread 1, at the corollary's rates."""

    def needed(clients: int, steps: int, p: float, target: float) -> float:
        return rounds_needed(target, clients=clients, steps=steps, p=p, k=clients, sigma=SIGMA, spread=SPREAD)

    found = []
    for p, target in _CASES:
        by_clients = tuple(needed(m, FIXED_STEPS, p, target) for m in CLIENTS)
        by_steps = tuple(needed(FIXED_CLIENTS, s, p, target) for s in STEPS)
        found.append(Line("clients", p, target, CLIENTS, by_clients))
        found.append(Line("local steps", p, target, STEPS, by_steps))
    return tuple(found)


def _draw(figure: Figure) -> None:
    for axes, what in zip(figure.subplots(1, 2, sharey=True), ("clients", "local steps"), strict=True):
        shown: Sequence[Line] = [line for line in lines() if line.what == what]
        styles = line_styles(f"p = {line.p:g}, target {line.target:g}" for line in shown)
        for line, (label, style) in zip(shown, styles.items(), strict=True):
            axes.plot(line.sizes, line.rounds, label=label, markersize=3, linewidth=1.2, **style)
            sizes = np.array([line.sizes[0], line.sizes[-1]])
            axes.plot(sizes, line.rounds[0] * sizes[0] / sizes, color=GREY, linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        count_axis(axes, zero=False)
        fixed = f"s = {FIXED_STEPS}" if what == "clients" else f"m = {FIXED_CLIENTS}"
        format_axes(axes, f"{fixed}; dotted: linear", what, "rounds" if what == "clients" else "")


def _chart() -> Chart:
    rows = (
        [line.what, f"{line.p:g}", f"{line.target:g}", size, f"{n:g}", f"{share:.4f}"]
        for line in lines()
        for size, n, share in zip(line.sizes, line.rounds, line.efficiency, strict=True)
    )
    head = ["what", "p", "target", "size", "rounds", "efficiency"]
    return Chart(csv_text(head, rows), _draw, (WIDTHS["double"], 3.0))


def _report(selection: Selection, measured: Measurements) -> Page:
    about = (
        f"exact expectations, no runs: quadratics of curvature 1, noise {SIGMA:g}, optima of spread {SPREAD:g}, "
        "k = m, rates of the corollary for the T at which the mean of E|grad F(x-bar)|^2 over T rounds is the target"
    )
    return Page(charts={"speedup": _chart()}, notes=[about, *(line.note() for line in lines())])


SPEEDUP = Recipe(
    "speedup",
    "not in the paper",
    "linear speed-up, rounds against clients and local steps",
    lambda selection: [],
    _report,
)
