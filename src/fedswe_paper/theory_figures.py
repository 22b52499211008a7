"""Figures 2, 4 and 5 of the paper, from the exact functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from fedswe.analysis.report import Report, frame
from fedswe.cli.arguments import Json
from fedswe.cli.theory import Plot, check_plot, deliver
from fedswe.errors import FedsweError
from fedswe.plotting import BLUE, RED, Corner, format_axes, ordered_colors, reference_line
from fedswe.theory.assumption import FloatArray
from fedswe.theory.limits import fedavg_bias_map, fedswe_trace_limit, fedswe_trajectory, visit_step
from fedswe.theory.mixing import rho, rho_homogeneous, rho_limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CLIENTS = 10
_ALONE = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # p of all clients in every round
_TURNS = ((0.1, 0.1), (0.1, 0.5), (0.3, 0.3), (0.5, 0.5))  # p of either group in its ten rounds
_KS = range(51)
_RATE, _ROUNDS = 0.01, 400  # figure 5: one local step


def figure(
    number: Annotated[int, typer.Argument(metavar="2|4|5", help="Which figure of the paper")],
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Figures 2, 4 and 5 of the paper, from exact values."""
    check_plot(plot)
    deliver(figure_report(number), as_json, plot)


@cache
def figure_report(number: int) -> Report:
    """One of the paper's figures."""
    if number not in FIGURES:
        raise FedsweError(f"figure {number} is not computed here: choose 2, 4 or 5")
    return FIGURES[number]()


def bias_map() -> Report:
    """Figure 2: the distance of FedAvg over active clients from the optimum, for two clients."""
    p = np.linspace(0, 1, 101)
    distance = fedavg_bias_map(p, p)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        fine = np.linspace(0, 1, 301)
        height = fedavg_bias_map(fine, fine).T
        image = axes.pcolormesh(fine, fine, height, cmap="viridis", vmin=0, vmax=50, shading="nearest", rasterized=True)
        lines = axes.contour(fine, fine, height, levels=[10, 20, 30, 40], colors="white", linewidths=0.7)
        axes.clabel(lines, fontsize=7, fmt="%d", manual=[(0.9, y) for y in (0.74, 0.56, 0.37, 0.18)])
        axes.clabel(lines, fontsize=7, fmt="%d", manual=[(x, 0.9) for x in (0.74, 0.56, 0.37, 0.18)])
        figure.colorbar(image, ax=axes, label=r"$|x_{\mathrm{output}} - x^*|$")
        axes.set_aspect("equal")
        format_axes(axes, "FedAvg over active clients, u = (0, 100)", "$p_1$", "$p_2$")
        axes.grid(visible=False)

    corners = [(0.1, 0.9), (0.5, 0.5), (1.0, 0.2), (0.02, 0.98)]
    rows = [
        {"p_1": f"{a:g}", "p_2": f"{b:g}", "distance": f"{fedavg_bias_map([a], [b])[0, 0]:.2f}"} for a, b in corners
    ]
    tables = {"|x_output - x*|, optimum 50": frame(rows)}
    return Report({"figure": 2, "p": p, "distance": distance}, draw, (3.6, 2.9), tables)


def mixing_curves() -> Report:
    """Figure 4: rho_k of ten clients against k, for windows of one round and of twenty."""
    alone = {p: np.array([rho_homogeneous(_CLIENTS, p, k) for k in _KS]) for p in _ALONE}
    turns = {pair: np.array([rho(_two_groups(*pair), k) for k in _KS]) for pair in _TURNS}
    limits = {pair: rho_limit(_two_groups(*pair)) for pair in _TURNS}

    def draw(figure: Figure) -> None:
        (above_left, above_right), (left, right) = figure.subplots(2, 2, height_ratios=(1, 2))
        for p, color in zip(_ALONE, ordered_colors(len(_ALONE)), strict=True):
            above_left.axhline(p, color=color, linewidth=1.3)
            left.plot(_KS, alone[p], color=color, linewidth=1.4)
            reference_line(left, 1 - p, f"p = {p:g}", color)
        for pair, color in zip(_TURNS, ordered_colors(len(_TURNS)), strict=True):
            for group, style in enumerate(("solid", "dashed")):
                begin = np.arange(10 * group, 40, 20)
                above_right.hlines([pair[group]] * 2, begin, begin + 10, color=color, linewidth=1.6, linestyle=style)
            right.plot(_KS, turns[pair], color=color, linewidth=1.4, label=f"p = ({pair[0]:g}, {pair[1]:g})")
            right.axhline(limits[pair], color=color, linewidth=0.8, linestyle=":")
        above_left.set(xlim=(0, 40), ylim=(0, 1.05))
        above_right.set(xlim=(0, 40), ylim=(0, 1.05))
        format_axes(above_left, "(a) all clients alike, P = 1", "round t", "$p_i^t$")
        format_axes(above_right, "(b) two groups in turns, P = 20 (dashed: second)", "round t", "$p_i^t$")
        for axes in (left, right):
            axes.set(xlim=(0, 50), ylim=(-0.01, 1.02))
            format_axes(axes, "", "k", r"$\rho_k$", "upper right")

    shown = (0, 1, 10, 50)
    curves = {f"P = 1, p = {p:g}": (alone[p], 1 - p) for p in _ALONE}
    curves |= {f"P = 20, p = ({a:g}, {b:g})": (turns[a, b], limits[a, b]) for a, b in _TURNS}
    rows = [
        {"availability": name, **{f"k = {k}": curve[k] for k in shown}, "k to infinity": limit}
        for name, (curve, limit) in curves.items()
    ]
    values = {
        "figure": 4,
        "k": list(_KS),
        "one_round": [{"p": p, "rho": alone[p], "limit": 1 - p} for p in _ALONE],
        "two_groups": [{"p": pair, "rho": turns[pair], "limit": limits[pair]} for pair in _TURNS],
    }
    notes = ["exact values, without the upward bias of an eigenvalue averaged over repetitions; dotted: k to infinity"]
    return Report(values, draw, (6.9, 4.6), {"rho_k of ten clients": frame(rows)}, notes)


def _two_groups(first: float, second: float) -> FloatArray:
    """Groups of five, ten rounds each."""
    half = _CLIENTS // 2
    return np.repeat([[first] * half + [0.0] * half, [0.0] * half + [second] * half], 10, axis=0)


def counterexample() -> Report:
    """Figure 5: two clients in turns, u = (100, -100), without and with interpolation."""
    step, optima = visit_step(_RATE, 1), np.array([100.0, -100.0])
    trace = np.tile(np.eye(2), (_ROUNDS // 2, 1))
    runs = {k: fedswe_trajectory(trace, optima, step, k, start=0.0) for k in (0, 1)}
    cycles = {k: float(fedswe_trace_limit(trace[:2], step, k).server[0] @ optima) for k in (0, 1)}

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for column, (k, run) in enumerate(runs.items()):
            gradient, held = panels[0, column], panels[1, column]
            for axes in (gradient, _inset(gradient)) if k else (gradient,):
                axes.plot(run.server, color=BLUE, linewidth=0.6)
            for axes in (held, _inset(held)) if k else (held,):
                axes.plot(run.clients[:, 0], color=BLUE, linewidth=1.2, label="client 1 (even rounds)")
                axes.plot(run.clients[:, 1], color=RED, linewidth=1.2, label="client 2 (odd rounds)")
            for axes in (gradient, held):
                reference_line(axes, cycles[k], "" if k else f"+{cycles[k]:.3g}")
                reference_line(axes, -cycles[k], f"±{cycles[k]:.3g}" if k else f"−{cycles[k]:.3g}")
            format_axes(gradient, f"({'ab'[column]}) k = {k}: gradient at the server model", "", r"$\nabla F(x^t)$")
            corner: Corner = "lower right" if k else "center right"
            format_axes(held, f"({'cd'[column]}) k = {k}: the clients' models", "round t", "$x_1^t$, $x_2^t$", corner)
        panels[0, 0].set(xlim=(0, _ROUNDS), ylim=(-115, 115))

    rows = [
        {
            "k": k,
            "limit cycle of x^t - x*": f"±{cycles[k]:.4g}",
            f"x^t after {_ROUNDS} rounds": float(run.server[-1]),
            "mean of the clients' models": float(run.clients[-1].mean()),
        }
        for k, run in runs.items()
    ]
    tables = {f"two clients in turns, eta_l = {_RATE:g}, one local step": frame(rows)}
    values = {
        "figure": 5,
        "runs": [
            {"k": k, "server": run.server, "clients": run.clients.T, "cycle": [cycles[k], -cycles[k]]}
            for k, run in runs.items()
        ],
    }
    notes = ["dotted: the exact limit cycle; a constant rate leaves ±100 a/(k + a), a = 0.01, also for k = 1"]
    return Report(values, draw, (6.9, 4.6), tables, notes)


def _inset(axes: Axes) -> Axes:
    """The first rounds, enlarged."""
    inset = axes.inset_axes((0.12, 0.62, 0.5, 0.34))
    inset.set(xlim=(0, 30), ylim=(-1.4, 1.4))
    inset.tick_params(labelsize=7)
    inset.grid(alpha=0.3)
    return inset


FIGURES: dict[int, Callable[[], Report]] = {2: bias_map, 4: mixing_curves, 5: counterexample}
