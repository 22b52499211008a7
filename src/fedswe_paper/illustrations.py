"""The figures of the paper that need no training, each as a chart with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedswe.availability import Alternating, Sine, Staircase, Stationary
from fedswe.availability.model import Population, Probabilistic
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError
from fedswe.plotting import BLUE, GREEN, GREY, RED, WIDTHS, Chart, csv_text, format_axes, ordered_colors
from fedswe.tasks.partition import dirichlet_shares, partition, realised_shares
from fedswe_paper.theory_figures import figure_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEED = 3  # the first of the released code
_PER_CLASS = 5000  # images of each of CIFAR-10's ten classes
_ALPHA, _CLASSES = 0.1, 10


def illustration(name: str) -> Chart:
    """One of the figures, by name."""
    if name not in ILLUSTRATIONS:
        raise FedsweError(f"{name} is no figure without training: choose {', '.join(ILLUSTRATIONS)}")
    return ILLUSTRATIONS[name]()


def four_clients() -> Chart:
    """Figure 1: four clients whose availability differs between clients and changes over the rounds."""
    rounds = 96
    kinds: dict[str, Probabilistic] = {
        "always the same": Stationary(p=[0.9], stream="legacy"),
        "stairs": Staircase(p=[0.6], stream="legacy"),
        "day and night": Sine(p=[0.8], gamma=0.5, period=48, stream="legacy"),
        "out of reach half of the time": Alternating(p=[0.7, 0.7], period=48, stream="legacy"),
    }
    prob, present = _courses(kinds, rounds, seeds=(1, 2, 3, 4))

    def draw(figure: Figure) -> None:
        for i, (axes, name) in enumerate(zip(figure.subplots(len(kinds), 1, sharex=True), kinds, strict=True)):
            axes.fill_between(range(rounds), prob[name][:, 0], step="post", color=BLUE, alpha=0.25, linewidth=0)
            axes.step(range(rounds), prob[name][:, 0], where="post", color=BLUE, linewidth=1.2)
            times = np.flatnonzero(present[name][:, 0])
            axes.broken_barh([(t, 1) for t in times], (-0.32, 0.2), color=GREEN, linewidth=0)
            axes.set(xlim=(0, rounds), ylim=(-0.4, 1.05), yticks=(0, 1))
            format_axes(axes, "", "round t" if i == len(kinds) - 1 else "", f"$p_{i + 1}^t$")
            axes.set_title(f"client {i + 1}: {name}", loc="left")
        figure.axes[0].set_title("green: available", loc="right")

    rows = (
        [i + 1, name, t, _short(prob[name][t, 0]), int(present[name][t, 0])]
        for i, name in enumerate(kinds)
        for t in range(rounds)
    )
    head = ["client", "dynamics", "round", "p", "available"]
    return Chart(csv_text(head, rows), draw, (WIDTHS["double"], 3.9))


def bias_map() -> Chart:
    """Figure 2, from the exact limit."""
    report = figure_report(2)
    p, distance = report.values["p"], report.values["distance"]
    rows = ([f"{a:g}", f"{b:g}", _short(distance[i, j])] for i, a in enumerate(p) for j, b in enumerate(p))
    return Chart(csv_text(["p_1", "p_2", "distance"], rows), report.draw, report.size)


def mixing_curves() -> Chart:
    """Figure 4, from the exact eigenvalues."""
    report = figure_report(4)
    cases = [("P = 1", curve) for curve in report.values["one_round"]]
    cases += [("P = 20", curve) for curve in report.values["two_groups"]]
    rows = (
        [window, " ".join(f"{p:g}" for p in np.atleast_1d(curve["p"])), k, _short(rho), _short(curve["limit"])]
        for window, curve in cases
        for k, rho in zip(report.values["k"], curve["rho"], strict=True)
    )
    return Chart(csv_text(["window", "p", "k", "rho", "limit"], rows), report.draw, report.size)


def counterexample() -> Chart:
    """Figure 5, by the recursion of the two clients."""
    report = figure_report(5)
    rows = (
        [run["k"], t, _short(server), _short(run["clients"][0][t]), _short(run["clients"][1][t])]
        for run in report.values["runs"]
        for t, server in enumerate(run["server"])
    )
    return Chart(csv_text(["k", "round", "server", "client_1", "client_2"], rows), report.draw, report.size)


def paths() -> Chart:
    """Figure 13: how information goes from client i to client j through the virtual clients.

    Three clients i, 2 and j, k = 2; i is available in the first of two rounds, j in the second. Beside the exact
    entries of W (eq. W matrix elements) stand the lower bounds of the proof of Lemma (rho upper bound main text).
    """
    clients, k = 3, 2
    total = clients + k
    first, second = (_mixing_matrix(here, k) for here in ([True, False, False], [False, False, True]))
    i, j, v = 0, 2, clients
    edges = {
        "(a) from i to j through a virtual client": [("i", "V", first[i, v]), ("V", "j", second[v, j])],
        "(b) from i to a virtual client": [("i", "V", first[i, v])],
        "(c) from a virtual client to j": [("V", "j", second[v, j])],
    }
    loops = {"i": second[i, i], "V": first[v, v], "j": first[j, j]}
    whole = {
        "(a) from i to j through a virtual client": (first @ second)[i, j],
        "(b) from i to a virtual client": (first @ second)[i, v],
        "(c) from a virtual client to j": (first @ second)[v, j],
    }

    def draw(figure: Figure) -> None:
        panels = figure.subplot_mosaic([["a", "a"], ["b", "c"]])
        for axes, (title, steps) in zip(panels.values(), edges.items(), strict=True):
            names = [steps[0][0], *(end for _, end, _ in steps)]
            for x, name in enumerate(names):
                axes.text(x, 0, f"${name}$", ha="center", va="center", zorder=3,
                          bbox={"boxstyle": "circle,pad=0.5", "facecolor": "white", "edgecolor": BLUE})  # fmt: skip
                axes.annotate("", (x + 0.07, 0.14), (x - 0.07, 0.14), arrowprops=_arrow(-1.6, "dashed"))
                axes.text(x, 0.62, _weight(loops[name], total), ha="center", va="center")
            for x, (_, _, weight) in enumerate(steps):
                axes.annotate("", (x + 0.88, 0), (x + 0.12, 0), arrowprops=_arrow(0.0, "solid"))
                axes.text(x + 0.5, -0.22, _weight(weight, total), ha="center", va="center")
            axes.set(
                xlim=(-0.3, len(names) - 0.7), ylim=(-0.45, 0.85), title=f"{title}: {whole[title]:.3g} after two rounds"
            )
            axes.set_axis_off()

    rows = [
        *([path, "edge", a, b, _short(w), _short(1 / total)] for path, steps in edges.items() for a, b, w in steps),
        *(["all", "self-loop", name, name, _short(w), _short(1 / total)] for name, w in loops.items()),
        *([path, "two rounds", "", "", _short(w), _short(total**-2)] for path, w in whole.items()),
    ]
    return Chart(csv_text(["path", "kind", "from", "to", "weight", "lower_bound"], rows), draw, (WIDTHS["double"], 3.2))


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

    rows = ([i, c, counts[i, c], _short(shares[i, c])] for i in range(clients) for c in range(_CLASSES))
    return Chart(csv_text(["client", "class", "images", "share"], rows), draw, (3.6, 4.0))


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

    return Chart(csv_text(["client", "p"], ([i, _short(p)] for i, p in enumerate(base))), draw, (WIDTHS["single"], 2.3))


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
    prob, present = _courses(kinds, rounds, seeds=[1] * len(kinds))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, len(kinds), sharex=True, squeeze=False, height_ratios=(3, 2))
        for (above, below), (letter, name) in zip(panels.T, zip("abc", kinds, strict=False), strict=True):
            for i, color in enumerate((RED, BLUE, GREEN)[: len(base)]):
                above.step(range(rounds), prob[name][:, i], where="post", color=color, linewidth=1.3)
                times = np.flatnonzero(present[name][:, i])
                below.broken_barh([(t, 1) for t in times], (i - 0.4, 0.8), color=color, linewidth=0)
            above.set(xlim=(0, rounds), ylim=(0, 1.02))
            below.set(ylim=(-0.6, len(base) - 0.4))
            below.set_yticks(range(len(base)), [f"{p:g}" for p in base])
            format_axes(above, f"({letter}) {name}", "", "$p_i^t$")
            format_axes(below, "", "round t", "$p_i$")

    rows = (
        [name, f"{base[i]:g}", t, _short(prob[name][t, i]), int(present[name][t, i])]
        for name in kinds
        for i in range(len(base))
        for t in range(rounds)
    )
    head = ["dynamics", "base_p", "round", "p", "available"]
    return Chart(csv_text(head, rows), draw, (WIDTHS["double"], 2.9))


def _courses(
    kinds: dict[str, Probabilistic], rounds: int, seeds: Sequence[int]
) -> tuple[dict[str, Floats], dict[str, npt.NDArray[np.bool_]]]:
    """The probabilities of each kind round by round, and who was available [rounds, clients]."""
    prob, present = {}, {}
    for (name, kind), seed in zip(kinds.items(), seeds, strict=True):
        clients = len(np.atleast_1d(np.asarray(kind.p)))
        schedule = kind.schedule(Population(clients, legacy=np.random.RandomState(seed)), seed)
        prob[name] = np.stack([schedule.prob(t) for t in range(rounds)])
        present[name] = np.stack([schedule.sample(t) for t in range(rounds)])
    return prob, present


def _short(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


ILLUSTRATIONS: dict[str, Callable[[], Chart]] = {
    "fig1": four_clients,
    "fig2": bias_map,
    "fig4": mixing_curves,
    "fig5": counterexample,
    "fig6-dynamics": alternating_groups,
    "fig13": paths,
    "fig14": label_bubbles,
    "fig15": probability_histogram,
    "fig16": dynamics,
}
