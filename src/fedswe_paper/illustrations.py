"""The figures of the paper that need no training, each as a chart with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedswe.availability import Alternating, Sine, Staircase, Stationary
from fedswe.availability.model import Population, Probabilistic
from fedswe.availability.schedule import Floats
from fedswe.plotting import BLUE, GREEN, GREY, RED, WIDTHS, Chart, Draw, format_axes, ordered_colors
from fedswe.tasks.partition import dirichlet_shares, partition, realised_shares
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.theory_figures import figure_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SEED = 3  # the first of the released code
_PER_CLASS = 5000  # images of each of CIFAR-10's ten classes
_ALPHA, _CLASSES = 0.1, 10


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
    """Figure 2, from the exact limit."""
    report = figure_report(2)
    p, distance = report.values["p"], report.values["distance"]
    table = {"p_1": np.repeat(p, len(p)), "p_2": np.tile(p, len(p)), "distance": distance.ravel()}
    return _chart(pd.DataFrame(table), report.draw, report.size)


def mixing_curves() -> Chart:
    """Figure 4, from the exact eigenvalues."""
    report = figure_report(4)
    curves = [
        pd.DataFrame({"window": window, "p": " ".join(f"{p:g}" for p in np.atleast_1d(curve["p"])),
                      "k": report.values["k"], "rho": curve["rho"], "limit": curve["limit"]})
        for window, part in (("P = 1", "one_round"), ("P = 20", "two_groups")) for curve in report.values[part]
    ]  # fmt: skip
    return _chart(pd.concat(curves), report.draw, report.size)


def counterexample() -> Chart:
    """Figure 5, by the recursion of the two clients."""
    report = figure_report(5)
    runs = [
        pd.DataFrame({"k": run["k"], "round": range(len(run["server"])), "server": run["server"],
                      "client_1": run["clients"][0], "client_2": run["clients"][1]})
        for run in report.values["runs"]
    ]  # fmt: skip
    return _chart(pd.concat(runs), report.draw, report.size)


def paths() -> Chart:
    """Figure 13: how information goes from client i to client j through the virtual clients.

    Three clients i, 2 and j, k = 2; i is available in the first of two rounds, j in the second. Beside the exact
    entries of W (eq. W matrix elements) stand the lower bounds of the proof of Lemma (rho upper bound main text).
    """
    clients, k = 3, 2
    total = clients + k
    first, second = (_mixing_matrix(here, k) for here in ([True, False, False], [False, False, True]))
    i, j, v = 0, 2, clients
    both = first @ second
    panels = {  # the edges, and the weight of both rounds
        "(a) from i to j through a virtual client": ([("i", "V", first[i, v]), ("V", "j", second[v, j])], both[i, j]),
        "(b) from i to a virtual client": ([("i", "V", first[i, v])], both[i, v]),
        "(c) from a virtual client to j": ([("V", "j", second[v, j])], both[v, j]),
    }
    loops = {"i": second[i, i], "V": first[v, v], "j": first[j, j]}

    def draw(figure: Figure) -> None:
        drawn = figure.subplot_mosaic([["a", "a"], ["b", "c"]]).values()
        for axes, (title, (steps, whole)) in zip(drawn, panels.items(), strict=True):
            names = [steps[0][0], *(end for _, end, _ in steps)]
            for x, name in enumerate(names):
                axes.text(x, 0, f"${name}$", ha="center", va="center", zorder=3,
                          bbox={"boxstyle": "circle,pad=0.5", "facecolor": "white", "edgecolor": BLUE})  # fmt: skip
                axes.annotate("", (x + 0.07, 0.14), (x - 0.07, 0.14), arrowprops=_arrow(-1.6, "dashed"))
                axes.text(x, 0.62, _weight(loops[name], total), ha="center", va="center")
            for x, (_, _, weight) in enumerate(steps):
                axes.annotate("", (x + 0.88, 0), (x + 0.12, 0), arrowprops=_arrow(0.0, "solid"))
                axes.text(x + 0.5, -0.22, _weight(weight, total), ha="center", va="center")
            axes.set(xlim=(-0.3, len(names) - 0.7), ylim=(-0.45, 0.85), title=f"{title}: {whole:.3g} after two rounds")
            axes.set_axis_off()

    rows = [
        *((path, "edge", *edge, 1 / total) for path, (edges, _) in panels.items() for edge in edges),
        *(("all", "self-loop", name, name, weight, 1 / total) for name, weight in loops.items()),
        *((path, "two rounds", "", "", whole, total**-2) for path, (_, whole) in panels.items()),
    ]
    table = pd.DataFrame(rows, columns=["path", "kind", "from", "to", "weight", "lower_bound"])
    return _chart(table, draw, (WIDTHS["double"], 3.2))


def _mixing_matrix(available: Sequence[bool], k: int) -> Floats:
    """W of a round, eq. (W matrix elements), regular clients first."""
    weight = np.append(np.asarray(available, dtype=np.float64), np.ones(k))
    matrix: Floats = np.diag(1.0 - weight) + np.outer(weight, weight) / weight.sum()
    return matrix


def _arrow(bend: float, style: str) -> dict[str, object]:
    return {
        "arrowstyle": "-|>", "color": "black", "linewidth": 0.9, "linestyle": style, "shrinkA": 0, "shrinkB": 0,
        "connectionstyle": f"arc3,rad={bend}",
    }  # fmt: skip


def _weight(value: float, total: int) -> str:
    return rf"{value:.3g} $\geq$ 1/{total}"


def label_bubbles() -> Chart:
    """Figure 14: which classes twenty clients hold under Dirichlet(0.1)."""
    clients = 20
    labels = np.repeat(np.arange(_CLASSES), _PER_CLASS)
    parts = partition(labels, dirichlet_shares(np.random.RandomState(_SEED), _ALPHA, clients, _CLASSES))
    counts = np.stack([np.bincount(labels[part], minlength=_CLASSES) for part in parts])
    shares = realised_shares(labels, parts, _CLASSES)

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
    """p_i = <nu_i, phi> of 100 clients with CIFAR-10's class sizes, as the released code draws them."""
    rng, clients = np.random.RandomState(_SEED), 100
    labels = np.repeat(np.arange(_CLASSES), _PER_CLASS)
    drawn = dirichlet_shares(rng, _ALPHA, clients, _CLASSES)
    realised = realised_shares(labels, partition(labels, drawn), _CLASSES)
    return Stationary(stream="legacy").base(Population(clients, drawn, realised, rng), _SEED)


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
    base = [0.1, 0.5, 0.9]
    kinds: dict[str, Probabilistic] = {
        "stationary": Stationary(p=base, stream="legacy"),
        "staircase": Staircase(p=base, stream="legacy"),
        "sine": Sine(p=base, stream="legacy"),
    }
    return _trajectories(kinds, base, rounds=80)


def alternating_groups() -> Chart:
    """Panels (e, f) of Figures 6, 7 and 10: two alternating groups, one client of each shown."""
    base = [0.8, 0.6]
    kinds: dict[str, Probabilistic] = {
        "static in the window": Alternating(p=base, stream="legacy"),
        "staircase in the window": Alternating(p=base, stream="legacy", inside="staircase"),
    }
    return _trajectories(kinds, base, rounds=200)


def _trajectories(kinds: dict[str, Probabilistic], base: Sequence[float], rounds: int) -> Chart:
    """Above, the probabilities round by round; below, a mark for every round a client was available."""
    table = _courses(kinds, rounds, seeds=[1] * len(kinds))

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


def _courses(kinds: dict[str, Probabilistic], rounds: int, seeds: Sequence[int]) -> pd.DataFrame:
    """The probability of each client of each kind round by round, and whether it was available."""
    parts = []
    for (name, kind), seed in zip(kinds.items(), seeds, strict=True):
        base = np.atleast_1d(np.asarray(kind.p))
        schedule = kind.schedule(Population(len(base), legacy=np.random.RandomState(seed)), seed)
        prob = np.stack([schedule.prob(t) for t in range(rounds)])
        present = np.stack([schedule.sample(t) for t in range(rounds)]).astype(int)
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
