"""Where algorithms end on quadratics of different curvature, with clients that come in every 1st, 2nd and 4th round.

With a small rate, an algorithm that gives client i the weight w_i over a period ends near the minimum of sum_i w_i F_i.
"""

import numpy as np
import pytest

from fedswe.availability.mask import Rows
from fedswe.core.local import Local
from fedswe.tasks import Quadratic
from fedswe.theory.limits import fedavg_active_limit, fedavg_all_limit
from tests import problems
from tests.algorithms import ALGORITHMS

U, CURVATURE = np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.5, 0.8])
EVERY = np.array([1, 2, 4])
RATE, ROUNDS = 0.02, 800
PRESENT = (np.arange(ROUNDS)[:, None] + 1) % EVERY == 0
PART = PRESENT[:4] / PRESENT[:4].sum(axis=1, keepdims=True)  # of the step of each round of FedAvg
SHARE = PART.mean(axis=0)


def local_momentum(beta):
    """LocalGHBM's weights: clients that look back to a round repeat its step. Over a period the steps add up to 0."""
    back = np.zeros((4, 4))
    for t, i in np.argwhere(PRESENT[:4]):
        for k in range(1, EVERY[i] + 1):
            back[t, (t - k) % 4] += PART[t, i] / EVERY[i]
    return np.linalg.solve(np.eye(4) - beta * back.T, np.ones(4)) @ PART


STALENESS = 1.0 * EVERY - 1  # all clients step the server in every round, and client i missed so many
# One weight per client; the memory methods, whose last updates add up to 0 only at the optimum, are exact.
WEIGHTS = {
    "fedavg": SHARE,
    "fednova": SHARE,
    "gfedavg": SHARE,
    "fedavg_all": 1 / EVERY,
    "fedbuff": SHARE * (1 + STALENESS) ** -0.5,
    "fedasync": SHARE * (1 + STALENESS) ** -0.5,
    "ghbm": SHARE,
    "local_ghbm": local_momentum(0.9),
}
UNBIASED = ["fedavg_known", "fedau", "f3ast", "fedawe", "fedpbc", "echo"]
UNBIASED += ["debiased_fedavg", "fedstale", "fedstale_known"]
DRIFTLESS = ["scaffold", "amplified_scaffold", "focus"]
EXACT = ["mifa", "fedvarp", "fedlaavg", "mimic", "ace", "ca2fl", "area", *DRIFTLESS]
PARAMETERS = {
    "fedbuff": {"buffer": 1},
    "gfedavg": {"amplification": 2.0, "period": 4},
    "amplified_scaffold": {"period": 4},
    "f3ast": {"budget": 0, "beta": 0.02},
    "area": {"lr": 4.0},  # it is slow
}


def last_period(name, steps=1, curvature=CURVATURE):
    """The models of the last period of four rounds."""
    task = Quadratic(centers=U[:, None].tolist(), curvature=curvature.tolist(), start=-1.0)
    algorithm = ALGORITHMS[name](**PARAMETERS.get(name, {}))
    local = Local(steps=steps, lr=RATE, schedule="constant")
    schedule = Rows(PRESENT, np.broadcast_to(1 / EVERY, PRESENT.shape))
    return problems.models("batched", algorithm, task.build(problems.setting()), schedule, ROUNDS, local)[-4:, 0]


def minimum(weights):
    return (weights * CURVATURE * U).sum() / (weights * CURVATURE).sum()


OPTIMUM = minimum(np.ones(3))


@pytest.mark.parametrize("name", WEIGHTS)
def test_biased(name):
    bias = minimum(WEIGHTS[name]) - OPTIMUM
    assert bias < -0.3
    assert last_period(name).mean() - OPTIMUM == pytest.approx(bias, rel=0.05)


AGES = np.array([[(t + 1) % every for every in EVERY] for t in range(4)])  # of the last update, in each round


def share_of_steps(weights, least):
    """The mean over the rounds of a period of each client's part of the step; [4, 3] gives [3]."""
    return (weights / np.maximum(weights.sum(axis=1, keepdims=True), 3 * least)).mean(axis=0)


@pytest.mark.parametrize(
    ("name", "parameters", "weights"),
    [
        ("interval_weights", {"power": 0.5}, (AGES == 0) * EVERY**0.5),
        ("interval_weights", {"power": 1.0}, (AGES == 0) * EVERY),
        ("interval_weights", {"power": 1.0, "least": 1.0}, (AGES == 0) * EVERY),
        ("keel", {"power": 0.5, "longest": 1.0}, (AGES == 0) * EVERY**0.5),
        ("keel", {"power": 1.0, "longest": 1.0, "steady": 0.0}, (AGES == 0) * EVERY),
        ("decayed_memory", {"decay": 0.9, "power": 0.0}, 0.9**AGES),
        ("decayed_memory", {"decay": 0.9}, 0.9**AGES * (0.9 + 0.1 * EVERY)),
        ("decayed_memory", {"decay": 0.6}, 0.6**AGES * (0.6 + 0.4 * EVERY)),
        ("decayed_memory", {"decay": 1 - 1e-9}, np.ones((4, 3))),
    ],
)
def test_self_normalised_weights(name, parameters, weights, monkeypatch):
    """With few clients, dividing by the weights of those that are there brings back most of FedAvg's bias; dividing by
    the decayed weights of all leaves a tenth of it."""
    monkeypatch.setitem(PARAMETERS, name, parameters)
    predicted = minimum(share_of_steps(weights, parameters.get("least", 0.0)))
    bias, of_fedavg = predicted - OPTIMUM, minimum(SHARE) - OPTIMUM
    assert abs(bias / of_fedavg) < (0.1 if name == "decayed_memory" else 0.9)
    assert last_period(name).mean() == pytest.approx(predicted, abs=0.03)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("keel", {"steady": 0.8}), ("keel", {"steady": 0.0}), ("interval_extrapolation", {"least": 0.0})],
)
def test_extrapolated_steps_of_a_period_add_up_to_zero(name, parameters, monkeypatch):
    """Not where the plain steps do, and an average does not move this point."""
    x = np.linspace(U.min(), U.max(), 3001)[:, None]
    moves, steps = RATE * CURVATURE * (U - x), 0.0
    for part in PART:
        mean = moves @ part
        steps = steps + mean * np.clip(moves**2 @ part / np.maximum(2 * mean**2, 1e-300), 1, 3)
    (zero,) = np.flatnonzero(np.diff(np.sign(steps)))
    monkeypatch.setitem(PARAMETERS, name, {"power": 0.0, "longest": 3.0, **parameters})
    assert last_period(name).mean() == pytest.approx(x[zero, 0], abs=0.02)
    assert abs(x[zero, 0] - minimum(SHARE)) > 0.1


@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased_in_the_mean(name):
    assert last_period(name).mean() == pytest.approx(OPTIMUM, abs=0.03)


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    """Not only in the mean, and also with several local steps where they leave no bias of their own."""
    assert np.abs(last_period(name) - OPTIMUM).max() < 1e-4
    if name in DRIFTLESS:
        assert np.abs(last_period(name, steps=5) - OPTIMUM).max() < 1e-4


def test_the_limits_of_the_theory():
    """For equal curvatures, the theory has the exact cycle."""
    curvature = np.ones(3)
    for name, limit in (("fedavg", fedavg_active_limit), ("fedavg_all", fedavg_all_limit)):
        cycle = limit(PRESENT[:4].astype(float), RATE).server @ U
        np.testing.assert_allclose(last_period(name, curvature=curvature), cycle, atol=1e-3)
