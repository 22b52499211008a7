"""Whose optimum does FedAvg converge to, and by how much does FedSWE correct it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.algorithms import FedSWE
from fedswe.analysis.drawing import GREY, PALETTE, dress
from fedswe.analysis.report import Report, Sheet, short
from fedswe.analysis.subject import Subject
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError, require
from fedswe.tasks.quadratic import QuadraticProblem
from fedswe.theory.bias import AlgorithmBias, BiasReport, bias_report, trace_bias_report
from fedswe.theory.limits import visit_step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SMALL_STEP = 0.01  # where the task has no curvature to compute it from
_COPIES = 8  # simulated records of markov clients
_LISTED = 4  # clients at either end, when there are many
_ALL_LISTED = 10
_ALIKE = 1e-9  # weights closer than this differ by rounding


@dataclass(frozen=True, eq=False)
class Share:
    """What one model of one algorithm settles at, as weights on the clients' optima."""

    algorithm: str
    model: str
    weights: Floats  # [m], averaged over the rounds of a cycle and over simulated records
    error: Floats | None  # [m], the standard error over simulated records
    distance: float  # of the average from the optimum
    worst_distance: float  # of the worst round

    @property
    def heaviest(self) -> int:
        return int(self.weights.argmax())


@dataclass(frozen=True, eq=False)
class _Objective:
    """The clients' optima and how far one visit goes."""

    centers: Floats  # [m, d]
    step: float
    quadratic: bool


def bias_of(subject: Subject, ks: Sequence[float] | None, step: float | None) -> Report:
    """The limits of FedAvg over active and over all clients, and of FedSWE for every k."""
    objective = _objective(subject, step)
    chosen = _own_k(subject) if ks is None else list(ks)
    require(len(chosen), "--k is empty: give at least one number, e.g. --k 0,10")
    tables = _tables(subject)
    reports = [[_solve(subject, table, objective, k) for table in tables] for k in chosen]
    shares = _shares("fedavg", [r.fedavg_active for r in reports[0]], objective)
    shares += _shares("fedavg_all", [r.fedavg_all for r in reports[0]], objective)
    for k, solved in zip(chosen, reports, strict=True):
        shares += _shares(f"fedswe k={k:g}", [r.fedswe for r in solved], objective)
    gain = max(r.echo_gain for r in reports[0])
    presence = np.mean([t.mean(axis=0) for t in tables], axis=0)
    values: dict[str, Any] = {
        "step": objective.step,
        "echo_gain": gain,
        "optimum": objective.centers.mean(axis=0) if objective.quadratic else None,
        "presence": presence,
        "limits": [_values(s, objective) for s in shares],
    }

    def draw(figure: Figure) -> None:
        _draw(figure, subject, shares, presence)

    sheets = [_summary(shares, objective, subject.m), _clients(shares, presence, subject.m)]
    return Report(values, draw, (7.2, 4.4), sheets, _notes(subject, shares, objective, gain))


def _objective(subject: Subject, step: float | None) -> _Objective:
    require(step is None or 0 < step < np.inf, f"--step {step} must be a positive number")
    problem, experiment = subject.problem, subject.experiment
    if not isinstance(problem, QuadraticProblem):
        return _Objective(np.eye(subject.m), step or _SMALL_STEP, False)
    curvature = problem.curvature.flatten().tolist()
    require(
        min(curvature) == max(curvature),
        "the exact limits need equal curvatures: set task.curvature to one number",
    )
    rate = experiment.local.lr_at(0)
    own = visit_step(rate, experiment.local.steps, experiment.algorithm.lr, curvature[0])
    require(
        step or rate * curvature[0] < 2,
        f"local.lr = {rate:g} drives clients away from their optima: choose it below {2 / curvature[0]:g}, or --step",
    )
    return _Objective(problem.centers.double().cpu().numpy(), step or own, True)


def _own_k(subject: Subject) -> list[float]:
    algorithm = subject.experiment.algorithm
    k = algorithm.k if isinstance(algorithm, FedSWE) else float(subject.m)
    return sorted({0.0, k})


def _tables(subject: Subject) -> list[Floats]:
    """One cycle of probabilities, or records of 0 and 1 that are taken to repeat."""
    if subject.knows == "trace":
        return [subject.trace.astype(np.float64)]
    if subject.knows == "chains":
        copies = subject.copies(subject.horizon, _COPIES)
        missing = np.flatnonzero(~copies.any(axis=0).all(axis=0))
        if missing.size:
            raise FedsweError(
                f"{subject.horizon} simulated rounds can pass without client {missing[0]}: raise --horizon"
            )
        return list(copies.transpose(1, 0, 2).astype(np.float64))
    return [subject.prob if subject.cycle is None else subject.prob[: subject.window(None)]]


def _solve(subject: Subject, table: Floats, objective: _Objective, k: float) -> BiasReport:
    solve = bias_report if subject.knows == "probabilities" else trace_bias_report
    return solve(table, objective.centers, objective.step, k)


def _shares(name: str, solved: Sequence[AlgorithmBias], objective: _Objective) -> list[Share]:
    result = []
    optimum = objective.centers.mean(axis=0)
    for model in ("server", "client_mean"):
        found = [getattr(s, model) for s in solved]
        weights = np.stack([f.weights.mean(axis=0) for f in found])
        mean = weights.mean(axis=0)
        result.append(
            Share(
                name,
                model.replace("_", " "),
                mean,
                weights.std(axis=0, ddof=1) / np.sqrt(len(weights)) if len(weights) > 1 else None,
                float(np.linalg.norm(mean @ objective.centers - optimum)),
                max(f.worst_distance for f in found),
            )
        )
    return result


def _values(share: Share, objective: _Objective) -> dict[str, Any]:
    return {
        "algorithm": share.algorithm,
        "model": share.model,
        "distance": share.distance,
        "worst_distance": share.worst_distance,
        "most_overweighted": share.heaviest,
        "weights": share.weights,
        "standard_error": share.error,
        "limit": share.weights @ objective.centers if objective.quadratic else None,
    }


def _summary(shares: Sequence[Share], objective: _Objective, m: int) -> Sheet:
    what = (
        "distance from the optimum" if objective.quadratic else "weights on the clients' optima, distance from 1/m each"
    )
    return Sheet(
        f"where the expected models settle: {what}",
        ["algorithm", "model", "distance", "worst round", "heaviest client", "weight × m"],
        [
            [
                s.algorithm,
                s.model,
                short(_clean(s.distance)),
                short(_clean(s.worst_distance)),
                "all alike" if np.ptp(s.weights) < _ALIKE else str(s.heaviest),
                _times_m(s, s.heaviest, m),
            ]
            for s in shares
        ],
    )


def _clients(shares: Sequence[Share], presence: Floats, m: int) -> Sheet:
    servers = [s for s in shares if s.model == "server"]
    order = np.argsort(-servers[0].weights, kind="stable")
    listed = order if m <= _ALL_LISTED else np.concatenate([order[:_LISTED], order[-_LISTED:]])
    return Sheet(
        "weight × m of a client's optimum at the server (1 is fair)"
        + ("" if m <= _ALL_LISTED else f": the {_LISTED} heaviest and lightest"),
        ["client", "there", *(s.algorithm for s in servers)],
        [[str(i), short(presence[i]), *(_times_m(s, i, m) for s in servers)] for i in listed],
    )


def _times_m(share: Share, client: int, m: int) -> str:
    text = f"{m * share.weights[client]:.3f}"
    return text if share.error is None else f"{text} ± {m * share.error[client]:.3f}"


def _clean(distance: float) -> float:
    """Zero up to rounding is zero."""
    return 0.0 if distance < _ALIKE else distance


def _notes(subject: Subject, shares: Sequence[Share], objective: _Objective, gain: float) -> list[str]:
    fedavg, corrected = shares[0], [s for s in shares if s.algorithm.startswith("fedswe") and s.model == "server"][-1]
    i, m = fedavg.heaviest, subject.m
    notes = [
        f"fedavg gives client {i} {m * fedavg.weights[i]:.2f} times its fair weight; "
        f"{corrected.algorithm} gives it {m * corrected.weights[i]:.2f} times",
        "exact in expectation for quadratics of equal curvature; one visit goes the fraction "
        f"{short(objective.step)} of the way to a client's optimum" + ("" if objective.quadratic else " (--step)"),
    ]
    if subject.knows == "trace":
        notes.append("for the trace repeated for ever")
    if subject.knows == "chains":
        notes.append(
            f"± one standard error over {_COPIES} simulated records of {subject.horizon} rounds, each repeated"
        )
    if gain > 2 and subject.knows != "trace":  # a repeated trace leaves nothing to chance
        notes.append(
            f"echo gain {short(gain)} is above 2: the mean settles, but single runs of fedswe can spread without "
            "bound; use a smaller step, a clip or an echo_cap"
        )
    return notes


def _draw(figure: Figure, subject: Subject, shares: Sequence[Share], presence: Floats) -> None:
    axes = figure.subplots()
    servers = [s for s in shares if s.model == "server"]
    order = np.argsort(presence, kind="stable")
    many = subject.m > 60
    for share, color in zip(servers, np.resize(PALETTE, len(servers)), strict=True):
        y = subject.m * share.weights[order]
        axes.plot(presence[order], y, "o", color=color, markersize=2.5 if many else 4, alpha=0.8, label=share.algorithm)
        if share.error is not None:
            axes.errorbar(presence[order], y, subject.m * share.error[order], fmt="none", ecolor=color, alpha=0.4)
    axes.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    title = f"{subject.name}, {subject.m} clients: whose optimum counts at the server"
    dress(axes, title, "share of rounds a client is there", "weight × m (1 is fair)")
