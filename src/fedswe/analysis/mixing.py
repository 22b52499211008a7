"""How well are the clients connected, for which k?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.drawing import BLUE, GREY, ORANGE, count_axis, dress, level
from fedswe.analysis.report import Report, Sheet, interval, short
from fedswe.analysis.subject import Subject
from fedswe.availability.schedule import Bools, Floats
from fedswe.errors import FedsweError, require
from fedswe.theory.assumption import window_delta
from fedswe.theory.mixing import (
    MixingEstimate,
    check_interpolation,
    realised_rho,
    rho_from_windows,
    rho_limit,
    rho_monte_carlo,
    rho_per_window,
)
from fedswe.theory.spectral import (
    SpectralBound,
    block_bound,
    block_bound_printed,
    single_round_bound,
    single_round_bound_printed,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = (6.4, 4.2)
_EXACT = 2e7  # clients squared times rounds of all different windows: beyond it, simulation is faster
_DRAWS = 1000
_ROUNDING = 1e-12  # of the exact rho_k


@dataclass(frozen=True)
class Mixing:
    """rho_k of the worst window, and how it is known."""

    k: float
    rho: float
    estimate: MixingEstimate | None = None  # when it is not exact
    realised: float | None = None  # for a trace: of its worst window as it happened


def mixing_of(subject: Subject, ks: Sequence[float], window: int, draws: int, confidence: float) -> list[Mixing]:
    """rho_k for every k; draws = 0 chooses between the exact value and simulation by their cost."""
    require(len(ks), "--k is empty: give at least one number, e.g. --k 0,1,10")
    for k in ks:
        check_interpolation(subject.m, k)
    require(draws >= 0, f"--draws must be 0 (choose) or positive, not {draws}")
    if subject.knows == "trace":
        require(draws == 0, "--draws simulates windows, and those of a trace are given: leave it out")
        return [_of_trace(_windows(subject, window), k, confidence) for k in ks]
    seed = subject.experiment.seed
    if subject.knows == "chains":
        windows = np.ascontiguousarray(subject.copies(window, draws or _DRAWS).transpose(1, 0, 2))
        estimates = [rho_from_windows(windows, k, seed, confidence) for k in ks]
        return [Mixing(k, e.rho, e) for k, e in zip(ks, estimates, strict=True)]
    table = subject.prob[: subject.horizon // window * window].reshape(-1, window, subject.m)
    different = np.unique(table, axis=0)
    if draws == 0 and len(different) * window * subject.m**2 <= _EXACT:
        exact = [float(rho_per_window(subject.prob, k, window).max()) for k in ks]
        return [Mixing(k, value if value > _ROUNDING else 0.0) for k, value in zip(ks, exact, strict=True)]
    worst = [_worst(different, k, draws or _DRAWS, seed, confidence) for k in ks]
    return [Mixing(k, e.rho, e) for k, e in zip(ks, worst, strict=True)]


def _worst(windows: Floats, k: float, draws: int, seed: int, confidence: float) -> MixingEstimate:
    """The largest rho of several windows: the error is shared among them, so that all their intervals hold at once."""
    each = 1 - (1 - confidence) / len(windows)
    estimates = [rho_monte_carlo(w, k, draws, seed, each) for w in windows]
    lower, upper = max(e.lower for e in estimates), max(e.upper for e in estimates)
    return MixingEstimate(max(e.rho for e in estimates), lower, upper, confidence, draws)


def _windows(subject: Subject, window: int) -> Bools:
    number = subject.horizon // window
    require(
        number >= 4,
        f"windows of {window} rounds in the trace: {number}, too few for an interval; name a --period "
        f"of at most {subject.horizon // 4}",
    )
    return subject.trace[: number * window].reshape(number, window, subject.m)


def _of_trace(windows: Bools, k: float, confidence: float) -> Mixing:
    estimate = rho_from_windows(windows, k, 0, confidence)
    return Mixing(k, estimate.rho, estimate, max(realised_rho(w, k) for w in windows))


def mixing_report(
    subject: Subject, ks: Sequence[float], period: int | None, draws: int, confidence: float
) -> Report:  # fmt: skip
    """rho_k for every k with the spectral bounds, and the limit of large k."""
    window = subject.window(period)
    found = mixing_of(subject, ks, window, draws, confidence)
    bounds = [_bounds(subject, f.k, window) for f in found]
    limit = _limit(subject, window)
    sheet = _sheet(found, bounds, limit, window, confidence)
    notes = _notes(subject, found, confidence)
    values: dict[str, Any] = {
        "period": window,
        "rho": [
            {
                "k": f.k,
                "rho": f.rho,
                "interval": None if f.estimate is None else [f.estimate.lower, f.estimate.upper],
                "realised_worst_window": f.realised,
                "bound": None if b is None else {"bound": b[0].bound, "log_gap": b[0].log_gap},
                "bound_as_printed": None if b is None else {"bound": b[1].bound, "log_gap": b[1].log_gap},
            }
            for f, b in zip(found, bounds, strict=True)
        ],
        "limit_of_large_k": limit,
    }

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        k, rho = np.array([f.k for f in found]), np.array([f.rho for f in found])
        axes.plot(k, rho, "o-", color=BLUE, markersize=4, label=r"$\rho_k$")
        estimates = [f.estimate for f in found if f.estimate is not None]
        if estimates:
            low, high = [e.lower for e in estimates], [e.upper for e in estimates]
            axes.fill_between(k, low, high, color=BLUE, alpha=0.15, linewidth=0, label=f"{100 * confidence:g} %")
        realised = [f.realised for f in found if f.realised is not None]
        if realised:
            axes.plot(k, realised, "s--", color=ORANGE, markersize=4, label="worst window of the trace")
        if limit is not None:
            level(axes, limit, "k → ∞", GREY)
        count_axis(axes, zero=True)
        axes.set_ylim(0, 1.03)
        dress(axes, f"{subject.name}, {subject.m} clients, windows of {window} rounds", "k", r"$\rho_k$")

    return Report(values, draw, _SIZE, [sheet], notes)


def _limit(subject: Subject, window: int) -> float | None:
    if subject.knows != "probabilities":
        return None
    table = subject.prob[: subject.horizon // window * window].reshape(-1, window, subject.m)
    return max(rho_limit(w) for w in np.unique(table, axis=0))


def _bounds(subject: Subject, k: float, window: int) -> tuple[SpectralBound, SpectralBound] | None:
    """The corrected bound and the printed one, where they apply."""
    if subject.knows != "probabilities" or (window > 1 and k == 0):
        return None
    try:
        delta = window_delta(subject.prob, window)
    except FedsweError:
        return None
    if window == 1:
        return single_round_bound(subject.m, k, delta), single_round_bound_printed(subject.m, k, delta)
    return block_bound(subject.m, k, delta, window), block_bound_printed(subject.m, k, delta, window)


def _sheet(
    found: Sequence[Mixing],
    bounds: Sequence[tuple[SpectralBound, SpectralBound] | None],
    limit: float | None,
    window: int,
    confidence: float,
) -> Sheet:
    columns = ["k", "rho_k"]
    columns += [f"{100 * confidence:g} % interval"] * (found[0].estimate is not None)
    columns += ["worst window"] * (found[0].realised is not None)
    columns += ["rounds to halve"]
    bounded = any(b is not None for b in bounds)
    differ = any(b is not None and b[0] != b[1] for b in bounds)
    columns += ["spectral bound"] * bounded + ["as printed"] * differ
    rows = []
    for f, b in zip(found, bounds, strict=True):
        row = [f"{f.k:g}", short(f.rho)]
        row += [interval(f.estimate.lower, f.estimate.upper)] if f.estimate is not None else []
        row += [short(f.realised)] if f.realised is not None else []
        row += [_halving(f.rho, window)]
        row += ["—" if b is None else _bound(b[0])] * bounded + ["—" if b is None else _bound(b[1])] * differ
        rows.append(row)
    if limit is not None:
        rows.append(["∞", short(limit), *[""] * (found[0].estimate is not None), _halving(limit, window)])
        rows[-1] += [""] * (len(columns) - len(rows[-1]))
    return Sheet(f"rho_k = lambda_2(E[W W^T]) over windows of {window} round{'s' * (window > 1)}", columns, rows)


def _halving(rho: float, window: int) -> str:
    """Each window multiplies the consensus error by at most rho in expectation, when no gradients are added."""
    if rho >= 1 - 1e-9:
        return "never"
    return short(window * math.log(2) / -math.log(rho)) if rho > 0 else "0"


def _bound(bound: SpectralBound) -> str:
    if bound.log_gap / math.log(10) < -8:
        return f"1 - 10^{bound.log_gap / math.log(10):.1f}"
    return short(bound.bound)


def _notes(subject: Subject, found: Sequence[Mixing], confidence: float) -> list[str]:
    halving = "rounds to halve the consensus error, at least that fast in expectation when no gradients are added"
    draws = found[0].estimate.draws if found[0].estimate is not None else 0
    if subject.knows == "trace":
        return [
            f"rho_k reads the {draws} windows of the trace as independent draws of one law; the worst window is a fact",
            halving,
        ]
    if subject.knows == "chains":
        return [
            f"from {draws} simulated windows; successive windows depend on each other, so rho_k to the n-th power is "
            "not what n windows do"
        ]
    return [f"from {draws} simulated windows, {100 * confidence:g} % interval"] * bool(draws) + [halving]
