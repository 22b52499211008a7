"""Whose optimum does FedAvg converge to, and by how much does FedSWE correct it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedswe.algorithms import DecayedMemory, FedSWE, IntervalExtrapolation, IntervalWeights, Keel
from fedswe.analysis.report import Panel, Report, figure_of, frame, short
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError, require
from fedswe.tasks.quadratic import QuadraticProblem
from fedswe.theory import limits
from fedswe.theory.limits import ExpectedLimit
from fedswe.theory.step_shares import ENUMERATED, extrapolated_shares, interval_shares, memory_shares

_SMALL_STEP = 0.01  # if the task has no curvature to compute it from
_COPIES = 8  # simulated traces of markov clients
_LISTED = 4  # clients at either end, if there are many
_ALL_LISTED = 10
_SELF_NORMALISED = ("keel", "interval_weights", "decayed_memory", "interval_extrapolation")
_EQUAL = 1e-9  # weights closer than this differ by rounding


@dataclass(frozen=True, eq=False)
class _Objective:
    """The clients' optima, and the fraction of the way to its optimum that a client goes in one round."""

    centers: Floats  # [m, d]
    step: float
    quadratic: bool


def bias_report(scenario: Scenario, ks: Sequence[float] | None, step: float | None) -> Report:
    """The limits of FedAvg over active and over all clients, and of FedSWE for every k."""
    objective, m = _objective(scenario, step), scenario.m
    if ks is None:
        algorithm = scenario.experiment.algorithm
        ks = sorted({0.0, float(algorithm.copies(m) if isinstance(algorithm, FedSWE) else m)})
    require(len(ks), "--k is empty: give at least one number, e.g. --k 0,10")
    tables, step, optimum = _tables(scenario), objective.step, objective.centers.mean(axis=0)
    every = {
        "fedavg": [limits.fedavg_active_limit(t, step) for t in tables],
        "fedavg_all": [limits.fedavg_all_limit(t, step) for t in tables],
        **_self_normalised(scenario, tables, objective),
        **{f"fedswe k={k:g}": [_fedswe(scenario, t, step, k) for t in tables] for k in ks},
    }
    entries = [
        _limit_entry(name, model, [getattr(limit, model) for limit in found], objective, optimum)
        for name, found in every.items()
        for model in ("server", "client_mean")
    ]
    servers, presence = entries[::2], np.mean([t.mean(axis=0) for t in tables], axis=0)
    echo_gain = max(limits.echo_gain(t, step) for t in tables)
    values: dict[str, Any] = {
        "step": step, "echo_gain": echo_gain, "optimum": optimum if objective.quadratic else None,
        "presence": presence, "limits": entries,
    }  # fmt: skip
    weights = pd.DataFrame({entry["algorithm"]: m * entry["weights"] for entry in servers}, index=presence)
    panel = Panel(
        f"{scenario.name}, {m} clients: weights of the clients' optima at the server",
        "share of rounds a client is available", "weight × m (1 is fair)", weights, style="o", lines={"fair": 1.0},
    )  # fmt: skip
    what = "distance from the optimum" if objective.quadratic else "weights of the clients, distance from 1/m each"
    order, title = np.argsort(-servers[0]["weights"], kind="stable"), "weight × m of a client's optimum at the server"
    if m > _ALL_LISTED:
        order, title = np.r_[order[:_LISTED], order[-_LISTED:]], f"{title}: the {_LISTED} heaviest and lightest"
    clients = [
        {"client": int(i), "available": presence[i], **{e["algorithm"]: _times_m(e, i) for e in servers}} for i in order
    ]
    printed = {f"where each algorithm ends: {what}": frame(list(map(_shown, entries))), title: frame(clients)}
    return Report(values, figure_of(panel), (4.6, 3.0), printed, _notes(scenario, servers, echo_gain, objective))


def _objective(scenario: Scenario, step: float | None) -> _Objective:
    require(step is None or 0 < step < np.inf, f"--step {step} must be a positive number")
    problem, experiment = scenario.problem, scenario.experiment
    if not isinstance(problem, QuadraticProblem):
        return _Objective(np.eye(scenario.m), step or _SMALL_STEP, False)
    curvature = problem.curvature.flatten().tolist()
    require(
        min(curvature) == max(curvature), "the exact limits need equal curvatures: set task.curvature to one number"
    )
    rate = experiment.local.lr_at(0)
    own = limits.visit_step(rate, experiment.local.steps, experiment.algorithm.lr, curvature[0])
    require(
        step or rate * curvature[0] < 2,
        f"local.lr = {rate:g} drives clients away from their optima: choose it below {2 / curvature[0]:g}, or --step",
    )
    return _Objective(problem.centers.double().cpu().numpy(), step or own, True)


def _tables(scenario: Scenario) -> list[Floats]:
    """One cycle of probabilities, or traces of 0 and 1 that are assumed to repeat."""
    if scenario.known == "chains":
        copies = scenario.copies(scenario.horizon, _COPIES)
        missing = np.flatnonzero(~copies.any(axis=0).all(axis=0))
        if missing.size:
            raise FedsweError(
                f"client {missing[0]} is not available in any of {scenario.horizon} simulated rounds: raise --horizon"
            )
        return list(copies.transpose(1, 0, 2).astype(np.float64))
    if scenario.known == "probabilities" and scenario.cycle is not None:
        return [scenario.prob[: scenario.window(None)]]
    return [scenario.table]


def _fedswe(scenario: Scenario, rounds: Floats, step: float, k: float) -> ExpectedLimit:
    if scenario.known == "probabilities":
        return limits.fedswe_limit(rounds, step, k)
    limit = limits.fedswe_trace_limit(rounds, step, k)  # the same limit with less work
    require(
        limit.spectral_radius < 1.0,
        f"FedSWE does not converge on this trace with step {step} and k = {k} (its deviations grow by the factor "
        f"{limit.spectral_radius:.3g} each time the trace repeats): choose a smaller step",
    )
    return limit


def _self_normalised(
    scenario: Scenario, tables: Sequence[Floats], objective: _Objective
) -> dict[str, list[ExpectedLimit]]:
    """Rules that divide their weights by their sum, for probabilities that do not change.

    With the parameters of the experiment if it has the rule, otherwise as they are by default.
    """
    if scenario.known != "probabilities" or any((t != t[0]).any() or not t[0].all() for t in tables):
        return {}
    own, p = scenario.experiment.algorithm, tables[0][0]
    few = objective.quadratic and scenario.m <= ENUMERATED
    keel = own if isinstance(own, Keel) else Keel()  # an average ends where what it averages does
    weights = own if type(own) is IntervalWeights else IntervalWeights()
    memory = own if isinstance(own, DecayedMemory) else DecayedMemory()
    shares = {}
    if few:
        found = extrapolated_shares(p, objective.centers, keel.power, 0.0, keel.longest)
        shares[f"keel power={keel.power:g} longest={keel.longest:g}"] = found
    shares |= {
        f"interval_weights power={weights.power:g}": interval_shares(p, weights.power, weights.least),
        f"decayed_memory decay={memory.decay:g}": memory_shares(p, memory.decay, memory.power),
    }
    if few:
        rule = own if isinstance(own, IntervalExtrapolation) else IntervalExtrapolation()
        found = extrapolated_shares(p, objective.centers, rule.power, rule.least, rule.longest)
        shares["interval_extrapolation"] = found
    return {name: [ExpectedLimit(found[None], found[None])] for name, found in shares.items()}


def _limit_entry(
    name: str, model: str, found: Sequence[Floats], objective: _Objective, optimum: Floats
) -> dict[str, Any]:
    """The limit of one model of one algorithm; `found` holds weights on the clients' optima [rounds, m] per table."""
    weights = np.stack([f.mean(axis=0) for f in found])
    mean = weights.mean(axis=0)
    away = [np.linalg.norm(f @ objective.centers - optimum, axis=1).max() for f in found]
    return {
        "algorithm": name,
        "model": model.replace("_", " "),
        "distance": float(np.linalg.norm(mean @ objective.centers - optimum)),
        "worst_distance": float(max(away)),
        "most_overweighted": int(mean.argmax()),
        "weights": mean,
        "standard_error": weights.std(axis=0, ddof=1) / np.sqrt(len(weights)) if len(weights) > 1 else None,
        "limit": mean @ objective.centers if objective.quadratic else None,
    }


def _shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    near, far = (0.0 if entry[key] < _EQUAL else entry[key] for key in ("distance", "worst_distance"))
    heaviest = "all equal" if np.ptp(entry["weights"]) < _EQUAL else entry["most_overweighted"]
    return {
        "algorithm": entry["algorithm"], "model": entry["model"], "distance": near, "worst round": far,
        "heaviest client": heaviest, "weight × m": _times_m(entry, entry["most_overweighted"]),
    }  # fmt: skip


def _times_m(entry: Mapping[str, Any], client: int) -> str:
    m, error = len(entry["weights"]), entry["standard_error"]
    text = f"{m * entry['weights'][client]:.3f}"
    return text if error is None else f"{text} ± {m * error[client]:.3f}"


def _notes(
    scenario: Scenario, servers: Sequence[Mapping[str, Any]], echo_gain: float, objective: _Objective
) -> list[str]:
    fedavg, fedswe = servers[0], servers[-1]
    i, m = fedavg["most_overweighted"], scenario.m
    weighed = scenario.problem is not None and scenario.problem.weights is not None
    notes = [
        *["task.weights is not taken into account: all clients count the same here"] * weighed,
        f"fedavg gives client {i} {m * fedavg['weights'][i]:.2f} times its fair weight; "
        f"{fedswe['algorithm']} gives it {m * fedswe['weights'][i]:.2f} times",
        "exact in expectation for quadratics of equal curvature; in one round a client goes the fraction "
        f"{short(objective.step)} of the way to its optimum" + ("" if objective.quadratic else " (--step)"),
    ]
    small = [name for entry in servers if (name := entry["algorithm"].split()[0]) in _SELF_NORMALISED]
    if small:
        notes.append(f"{', '.join(small)}: for rates that tend to 0")
    if scenario.known == "trace":
        notes.append("the trace is assumed to repeat")
    if scenario.known == "chains":
        notes.append(
            f"± one standard error over {_COPIES} simulated traces of {scenario.horizon} rounds, each assumed to repeat"
        )
    if echo_gain > 2 and scenario.known != "trace":  # a repeated trace is not random
        notes.append(
            f"echo gain {short(echo_gain)} is above 2: the mean converges, but single runs of fedswe can "
            "spread without bound; use a smaller step, a clip or an echo_cap"
        )
    return notes
