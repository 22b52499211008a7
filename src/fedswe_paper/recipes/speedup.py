"""Linear speed-up in clients and local steps, the remark after the corollary: exact, on noisy quadratics."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pandas as pd

from fedswe.charts import Chart
from fedswe.plotting import GREY, WIDTHS, count_axis, format_axes, line_styles
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


@cache
def table() -> pd.DataFrame:
    """The rounds that reach a target, for growing numbers of clients or of local steps, and the share of linear.

    FedSWE with k = m, sigma = 3, optima of spread 1, at the corollary's rates.
    """
    rows = []
    for p, target in _CASES:
        sizes = [("clients", m, m, FIXED_STEPS) for m in CLIENTS]
        sizes += [("local steps", s, FIXED_CLIENTS, s) for s in STEPS]
        for what, size, m, s in sizes:
            rounds = rounds_needed(target, clients=m, steps=s, p=p, k=m, sigma=SIGMA, spread=SPREAD)
            rows.append((what, p, target, size, rounds))
    found = pd.DataFrame(rows, columns=["what", "p", "target", "size", "rounds"]).astype({"rounds": float})
    return found.assign(efficiency=efficiency(found))


def efficiency(lines: pd.DataFrame) -> pd.Series:
    """The speed-up over the smallest size, over the linear one."""
    work = lines["rounds"] * lines["size"]
    return work.groupby([lines["what"], lines["p"], lines["target"]]).transform("first") / work


def note(line: pd.DataFrame) -> str:
    """Up to where the speed-up is linear, within a tenth and within a half, and where rounds grow again."""
    first = line.iloc[0]
    parts = [f"{first['what']}, p = {first['p']:g}, target {first['target']:g}:"]
    for least in (0.9, 0.5):
        good = line.loc[line["efficiency"] >= least, "size"].max()
        parts.append(f"at least {100 * least:.0f} % of linear up to {good},")
    best = line.loc[line["rounds"].idxmin(), "size"]
    last = line["size"].iloc[-1]
    return " ".join([*parts, "still fewer rounds at the largest" if best == last else f"fewest rounds at {best}"])


def _draw(figure: Figure) -> None:
    for axes, what in zip(figure.subplots(1, 2, sharey=True), ("clients", "local steps"), strict=True):
        shown = table().query("what == @what").groupby(["p", "target"], sort=False)
        styles = line_styles(f"p = {p:g}, target {target:g}" for (p, target), _ in shown)
        for (_, line), (label, style) in zip(shown, styles.items(), strict=True):
            axes.plot(line["size"], line["rounds"], label=label, markersize=3, linewidth=1.2, **style)
            sizes = line["size"].iloc[[0, -1]]
            axes.plot(sizes, line["rounds"].iloc[0] * sizes.iloc[0] / sizes, color=GREY, linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        count_axis(axes, zero=False)
        fixed = f"s = {FIXED_STEPS}" if what == "clients" else f"m = {FIXED_CLIENTS}"
        format_axes(axes, f"{fixed}; dotted: linear", what, "rounds" if what == "clients" else "")


def _report(selection: Selection, measured: Measurements) -> Page:
    about = (
        f"exact expectations, no runs: quadratics of curvature 1, noise {SIGMA:g}, optima of spread {SPREAD:g}, "
        "k = m, rates of the corollary for the T at which the mean of E|grad F(x-bar)|^2 over T rounds is the target"
    )
    shown = table().assign(efficiency=table()["efficiency"].map("{:.4f}".format))
    chart = Chart(shown.to_csv(index=False, float_format="%g"), _draw, (WIDTHS["double"], 3.0))
    lines = table().groupby(["p", "target", "what"], sort=False)
    return Page(charts={"speedup": chart}, notes=[about, *(note(line) for _, line in lines)])


SPEEDUP = Recipe(
    "speedup",
    "not in the paper",
    "linear speed-up, rounds against clients and local steps",
    lambda selection: [],
    _report,
)
