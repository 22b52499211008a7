"""The figures of the paper that need no training, each as a chart with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.availability import Alternating, Sine, Staircase, Stationary
from fedswe.availability.model import Population, Probabilistic
from fedswe.availability.schedule import Floats
from fedswe.charts import Chart
from fedswe.engine.base import availability_of
from fedswe.plotting import BLUE, GREEN, GREY, RED, WIDTHS, Corner, Draw, format_axes, ordered_colors, reference_line
from fedswe.tasks.partition import dirichlet_shares, partition, realised_shares
from fedswe.theory.limits import fedavg_bias_map, fedswe_trace_limit, fedswe_trajectory, visit_step
from fedswe.theory.mixing import rho, rho_homogeneous, rho_limit
from fedswe_paper.publish import Page, Recipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SEED = 3  # the first of the released code
_PER_CLASS = 5000  # images of each of CIFAR-10's ten classes
_ALPHA, _CLASSES = 0.1, 10
_CLIENTS, _KS = 10, range(51)  # of figure 4
_ALONE = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # p of all clients in every round
_TURNS = ((0.1, 0.1), (0.1, 0.5), (0.3, 0.3), (0.5, 0.5))  # p of either group in its ten rounds
_RATE, _ROUNDS = 0.01, 400  # of figure 5: one local step


def four_clients() -> Chart:
    """Figure 1: four clients whose availability differs between clients and changes over the rounds."""
    rounds = 96
    kinds: dict[str, Probabilistic] = {
        "always the same": Stationary(p=[0.9], stream="legacy"),
        "stairs": Staircase(p=[0.6], stream="legacy"),
        "day and night": Sine(p=[0.8], gamma=0.5, period=48, stream="legacy"),
        "out of reach half of the time": Alternating(p=[0.7, 0.7], period=48, stream="legacy"),
    }
    table = _courses(kinds, rounds, seeds=(1, 2, 3, 4)).drop_duplicates(["dynamics", "round"])  # the first client
    table.insert(0, "client", table.groupby("dynamics", sort=False).ngroup() + 1)

    def draw(figure: Figure) -> None:
        for axes, (i, part) in zip(figure.subplots(len(kinds), 1, sharex=True), table.groupby("client"), strict=True):
            axes.fill_between(part["round"], part["p"], step="post", color=BLUE, alpha=0.25, linewidth=0)
            axes.step(part["round"], part["p"], where="post", color=BLUE, linewidth=1.2)
            _mark(axes, part, (-0.32, 0.2), GREEN)
            axes.set(xlim=(0, rounds), ylim=(-0.4, 1.05), yticks=(0, 1))
            format_axes(axes, "", "round t" if i == len(kinds) else "", f"$p_{i}^t$")
            axes.set_title(f"client {i}: {part['dynamics'].iloc[0]}", loc="left")
        figure.axes[0].set_title("green: available", loc="right")

    return _chart(table.drop(columns="base_p"), draw, (WIDTHS["double"], 3.9))


def bias_map() -> Chart:
    """Figure 2: the distance of FedAvg over active clients from the optimum, for two clients."""
    p = np.linspace(0, 1, 101)

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

    table = {"p_1": np.repeat(p, len(p)), "p_2": np.tile(p, len(p)), "distance": fedavg_bias_map(p, p).ravel()}
    return _chart(pd.DataFrame(table), draw, (3.6, 2.9))


@cache
def mixing() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """rho_k of ten clients for every k, and its limit: of all alike over one round, of two groups over twenty."""
    alone = [{"p": p, "rho": [rho_homogeneous(_CLIENTS, p, k) for k in _KS], "limit": 1 - p} for p in _ALONE]
    turns = [
        {"p": pair, "rho": [rho(_two_groups(*pair), k) for k in _KS], "limit": rho_limit(_two_groups(*pair))}
        for pair in _TURNS
    ]
    return alone, turns


def _two_groups(first: float, second: float) -> Floats:
    """Groups of five, ten rounds each."""
    half = _CLIENTS // 2
    return np.repeat([[first] * half + [0.0] * half, [0.0] * half + [second] * half], 10, axis=0)


def mixing_curves() -> Chart:
    """Figure 4: rho_k of ten clients against k, for windows of one round and of twenty."""
    alone, turns = mixing()

    def draw(figure: Figure) -> None:
        (above_left, above_right), (left, right) = figure.subplots(2, 2, height_ratios=(1, 2))
        for curve, color in zip(alone, ordered_colors(len(alone)), strict=True):
            above_left.axhline(curve["p"], color=color, linewidth=1.3)
            left.plot(_KS, curve["rho"], color=color, linewidth=1.4)
            reference_line(left, curve["limit"], f"p = {curve['p']:g}", color)
        for curve, color in zip(turns, ordered_colors(len(turns)), strict=True):
            pair = curve["p"]
            for group, style in enumerate(("solid", "dashed")):
                begin = np.arange(10 * group, 40, 20)
                above_right.hlines([pair[group]] * 2, begin, begin + 10, color=color, linewidth=1.6, linestyle=style)
            right.plot(_KS, curve["rho"], color=color, linewidth=1.4, label=f"p = ({pair[0]:g}, {pair[1]:g})")
            right.axhline(curve["limit"], color=color, linewidth=0.8, linestyle=":")
        titles = "(a) all clients alike, P = 1", "(b) two groups in turns, P = 20 (dashed: second)"
        for axes, title in zip((above_left, above_right), titles, strict=True):
            axes.set(xlim=(0, 40), ylim=(0, 1.05))
            format_axes(axes, title, "round t", "$p_i^t$")
        for axes in (left, right):
            axes.set(xlim=(0, 50), ylim=(-0.01, 1.02))
            format_axes(axes, "", "k", r"$\rho_k$", "upper right")

    curves = [
        pd.DataFrame({"window": window, "p": " ".join(f"{p:g}" for p in np.atleast_1d(curve["p"])), "k": _KS,
                      "rho": curve["rho"], "limit": curve["limit"]})
        for window, part in (("P = 1", alone), ("P = 20", turns)) for curve in part
    ]  # fmt: skip
    return _chart(pd.concat(curves), draw, (6.9, 4.6))


@cache
def alternating_runs() -> list[dict[str, Any]]:
    """Two clients in turns, u = (100, -100), without and with interpolation, and the limit of the server's model."""
    step, optima = visit_step(_RATE, 1), np.array([100.0, -100.0])
    trace, runs = np.tile(np.eye(2), (_ROUNDS // 2, 1)), []
    for k in (0, 1):
        server, clients = fedswe_trajectory(trace, optima, step, k, start=0.0)
        cycle = float(fedswe_trace_limit(trace[:2], step, k).server[0] @ optima)
        runs.append({"k": k, "server": server, "clients": clients.T, "cycle": (cycle, -cycle)})
    return runs


def counterexample() -> Chart:
    """Figure 5; dotted: the exact limits."""
    runs = alternating_runs()

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for column, run in enumerate(runs):
            k, cycle = run["k"], run["cycle"][0]
            gradient, held = panels[0, column], panels[1, column]
            for axes in (gradient, _inset(gradient)) if k else (gradient,):
                axes.plot(run["server"], color=BLUE, linewidth=0.6)
            for axes in (held, _inset(held)) if k else (held,):
                axes.plot(run["clients"][0], color=BLUE, linewidth=1.2, label="client 1 (even rounds)")
                axes.plot(run["clients"][1], color=RED, linewidth=1.2, label="client 2 (odd rounds)")
            for axes in (gradient, held):
                reference_line(axes, cycle, "" if k else f"+{cycle:.3g}")
                reference_line(axes, -cycle, f"±{cycle:.3g}" if k else f"−{cycle:.3g}")
            format_axes(gradient, f"({'ab'[column]}) k = {k}: gradient at the server model", "", r"$\nabla F(x^t)$")
            corner: Corner = "lower right" if k else "center right"
            format_axes(held, f"({'cd'[column]}) k = {k}: the clients' models", "round t", "$x_1^t$, $x_2^t$", corner)
        panels[0, 0].set(xlim=(0, _ROUNDS), ylim=(-115, 115))

    tables = [
        pd.DataFrame({"k": run["k"], "round": range(len(run["server"])), "server": run["server"],
                      "client_1": run["clients"][0], "client_2": run["clients"][1]})
        for run in runs
    ]  # fmt: skip
    return _chart(pd.concat(tables), draw, (6.9, 4.6))


def _inset(axes: Axes) -> Axes:
    """The first rounds, enlarged."""
    inset = axes.inset_axes((0.12, 0.62, 0.5, 0.34))
    inset.set(xlim=(0, 30), ylim=(-1.4, 1.4))
    inset.tick_params(labelsize=7)
    inset.grid(alpha=0.3)
    return inset


def paths() -> Chart:
    """Figure 13: how information goes from client i to client j through the virtual clients.

    Three clients i, 2 and j, k = 2; i is available in the first of two rounds, j in the second. Beside the exact
    entries of W (eq. W matrix elements) stand the lower bounds of the proof of Lemma (rho upper bound main text).
    """
    there = np.array([[1, 0, 0, 1, 1], [0, 0, 1, 1, 1]])  # the virtual clients come last
    first, second = (np.diag(1.0 - w) + np.outer(w, w) / w.sum() for w in there)
    i, j, v, total, both = 0, 2, 3, there.shape[1], first @ second
    panels = {  # the edges, and the weight of both rounds
        "(a) from i to j through a virtual client": ([("i", "V", first[i, v]), ("V", "j", second[v, j])], both[i, j]),
        "(b) from i to a virtual client": ([("i", "V", first[i, v])], both[i, v]),
        "(c) from a virtual client to j": ([("V", "j", second[v, j])], both[v, j]),
    }
    loops = {"i": second[i, i], "V": first[v, v], "j": first[j, j]}

    def draw(figure: Figure) -> None:
        drawn = figure.subplot_mosaic([["a", "a"], ["b", "c"]]).values()
        middle: dict[str, Any] = {"ha": "center", "va": "center"}
        circle = {"boxstyle": "circle,pad=0.5", "facecolor": "white", "edgecolor": BLUE}
        arrow = {"arrowstyle": "-|>", "color": "black", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
        bent = {"linestyle": "dashed", "connectionstyle": "arc3,rad=-1.6"}
        for axes, (title, (steps, whole)) in zip(drawn, panels.items(), strict=True):
            names = [steps[0][0], *(end for _, end, _ in steps)]
            for x, name in enumerate(names):
                axes.text(x, 0, f"${name}$", zorder=3, bbox=circle, **middle)
                axes.annotate("", (x + 0.07, 0.14), (x - 0.07, 0.14), arrowprops=arrow | bent)
                axes.text(x, 0.62, rf"{loops[name]:.3g} $\geq$ 1/{total}", **middle)
            for x, (_, _, weight) in enumerate(steps):
                axes.annotate("", (x + 0.88, 0), (x + 0.12, 0), arrowprops=arrow)
                axes.text(x + 0.5, -0.22, rf"{weight:.3g} $\geq$ 1/{total}", **middle)
            axes.set(xlim=(-0.3, len(names) - 0.7), ylim=(-0.45, 0.85), title=f"{title}: {whole:.3g} after two rounds")
            axes.set_axis_off()

    rows = [
        *((path, "edge", *edge, 1 / total) for path, (edges, _) in panels.items() for edge in edges),
        *(("all", "self-loop", name, name, weight, 1 / total) for name, weight in loops.items()),
        *((path, "two rounds", "", "", whole, total**-2) for path, (_, whole) in panels.items()),
    ]
    table = pd.DataFrame(rows, columns=["path", "kind", "from", "to", "weight", "lower_bound"])
    return _chart(table, draw, (WIDTHS["double"], 3.2))


def _population(clients: int) -> tuple[Population, npt.NDArray[np.int64]]:
    """Clients of CIFAR-10's class sizes under Dirichlet(0.1), as the released code draws them, and images by class."""
    rng, labels = np.random.RandomState(_SEED), np.repeat(np.arange(_CLASSES), _PER_CLASS)
    drawn = dirichlet_shares(rng, _ALPHA, clients, _CLASSES)
    parts = partition(labels, drawn)
    counts = np.stack([np.bincount(labels[part], minlength=_CLASSES) for part in parts])
    return Population(clients, drawn, realised_shares(labels, parts, _CLASSES), rng), counts


def label_bubbles() -> Chart:
    """Figure 14: which classes twenty clients hold under Dirichlet(0.1)."""
    clients = 20
    counts = _population(clients)[1]
    shares = counts / counts.sum(axis=1, keepdims=True)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for c, color in enumerate(ordered_colors(_CLASSES)):
            axes.scatter(np.full(clients, c), np.arange(clients), s=130 * shares[:, c], color=color, linewidth=0)
        axes.set(xticks=range(_CLASSES), yticks=range(0, clients, 2), xlim=(-0.7, 9.7), ylim=(-1, clients))
        format_axes(axes, "Dirichlet(0.1), 20 clients\narea: share of the client's images", "class", "client")

    client, kind = np.indices(counts.shape)
    table = {"client": client.ravel(), "class": kind.ravel(), "images": counts.ravel(), "share": shares.ravel()}
    return _chart(pd.DataFrame(table), draw, (3.6, 4.0))


def base_probabilities() -> Floats:
    """p_i = <nu_i, phi> of 100 clients."""
    return Stationary(stream="legacy").base(_population(100)[0], _SEED)


def probability_histogram() -> Chart:
    """Figure 15: the distribution of the base probabilities of 100 clients."""
    base = base_probabilities()

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.hist(base, bins=np.linspace(0, 1, 21).tolist(), color=BLUE, edgecolor="white", linewidth=0.6)
        axes.axvline(0.5, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(xlim=(0, 1))
        axes.locator_params(axis="y", integer=True)
        format_axes(axes, f"{(base < 0.5).sum()} of {len(base)} clients below 0.5", "$p_i$", "clients")

    return _chart(pd.DataFrame({"client": range(len(base)), "p": base}), draw, (WIDTHS["single"], 2.3))


def dynamics() -> Chart:
    """Figure 16: p_i^t for p_i = 0.1, 0.5, 0.9, and the available clients, in 80 rounds."""
    models: dict[str, type[Probabilistic]] = {"stationary": Stationary, "staircase": Staircase, "sine": Sine}
    return _trajectories({name: kind(p=[0.1, 0.5, 0.9], stream="legacy") for name, kind in models.items()}, rounds=80)


def alternating_groups() -> Chart:
    """Panels (e, f) of Figures 6, 7 and 10: two alternating groups, one client of each shown."""
    insides: tuple[Literal["static", "staircase"], ...] = ("static", "staircase")
    kinds = {f"{name} in the window": Alternating(p=[0.8, 0.6], stream="legacy", inside=name) for name in insides}
    return _trajectories(kinds, rounds=200)


def _trajectories(kinds: Mapping[str, Probabilistic], rounds: int) -> Chart:
    """Above, the probabilities round by round; below, a mark for every round a client was available."""
    table = _courses(kinds, rounds, seeds=[1] * len(kinds))
    base = table["base_p"].unique()

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, len(kinds), sharex=True, squeeze=False, height_ratios=(3, 2))
        for (above, below), (letter, name) in zip(panels.T, zip("abc", kinds, strict=False), strict=True):
            clients = table[table["dynamics"] == name].groupby("base_p", sort=False)
            for i, (color, (_, part)) in enumerate(zip((RED, BLUE, GREEN), clients, strict=False)):
                above.step(part["round"], part["p"], where="post", color=color, linewidth=1.3)
                _mark(below, part, (i - 0.4, 0.8), color)
            above.set(xlim=(0, rounds), ylim=(0, 1.02))
            below.set(ylim=(-0.6, len(base) - 0.4))
            below.set_yticks(range(len(base)), [f"{p:g}" for p in base])
            format_axes(above, f"({letter}) {name}", "", "$p_i^t$")
            format_axes(below, "", "round t", "$p_i$")

    return _chart(table, draw, (WIDTHS["double"], 2.9))


def _courses(kinds: Mapping[str, Probabilistic], rounds: int, seeds: Sequence[int]) -> pd.DataFrame:
    """The probability of each client of each kind round by round, and whether it was available."""
    parts = []
    for (name, kind), seed in zip(kinds.items(), seeds, strict=True):
        base = np.atleast_1d(np.asarray(kind.p))
        schedule = kind.schedule(Population(len(base), legacy=np.random.RandomState(seed)), seed)
        prob = np.stack([schedule.prob(t) for t in range(rounds)])
        present = availability_of(schedule, rounds).astype(int)
        for i, p in enumerate(base):
            course = {"round": range(rounds), "p": prob[:, i], "available": present[:, i]}
            parts.append(pd.DataFrame({"dynamics": name, "base_p": p, **course}))
    return pd.concat(parts, ignore_index=True)


def _mark(axes: Axes, course: pd.DataFrame, y: tuple[float, float], color: str) -> None:
    """A bar in every round with the client."""
    axes.broken_barh([(t, 1) for t in course.loc[course["available"] == 1, "round"]], y, color=color, linewidth=0)


def _chart(table: pd.DataFrame, draw: Draw, size: tuple[float, float]) -> Chart:
    return Chart(table.to_csv(index=False, float_format="%.6g"), draw, size)


def _recipe(name: str, title: str, chart: Callable[[], Chart]) -> Recipe:
    number = f"Figure {name.removeprefix('fig')}"
    return Recipe(name, number, title, lambda selection: [], lambda selection, measured: Page(charts={name: chart()}))


DRAWN = {  # the recipes
    name: _recipe(name, title, chart)
    for name, title, chart in (
        ("fig1", "availability that differs between clients and over the rounds", four_clients),
        ("fig2", "how far FedAvg ends from the optimum of two clients", bias_map),
        ("fig4", "how fast clients mix, against k", mixing_curves),
        ("fig5", "two alternating clients with and without interpolation", counterexample),
        ("fig13", "paths of information between clients through the virtual clients", paths),
        ("fig14", "labels of 20 clients", label_bubbles),
        ("fig15", "how often 100 clients are available", probability_histogram),
        ("fig16", "the three dynamics", dynamics),
    )
}
