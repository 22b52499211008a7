"""Algorithms that are others for some parameters, and FOCUS as it was published."""

from dataclasses import replace

import numpy as np
import torch

from fedswe.availability.mask import Rows
from fedswe.core.algorithm import Done, Job, ServerView
from fedswe.core.local import Local
from fedswe.core.records import Model, total
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.laws.cases import gradient, local_lr

ROUNDS, M = 30, 6
PRESENT = problems.mask(ROUNDS, M)
SOMEBODY = PRESENT | (~PRESENT.any(axis=1, keepdims=True) & (np.arange(M) == 0))  # no empty rounds


def models(name, present=PRESENT, prob=None, steps=4, **parameters):
    prob = problems.probabilities(ROUNDS, M) if prob is None else prob
    local = Local(steps=steps, batch_size=16, lr=0.05)
    algorithm = ALGORITHMS[name](lr=0.8, **parameters)
    return problems.models("batched", algorithm, problems.quadratic(M), Rows(present, prob), ROUNDS, local)


def assert_same(one, other):
    assert np.ptp(one, axis=0).max() > 0.05
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_fedstale():
    assert_same(models("fedstale_known", beta=0.0), models("fedavg_known"))
    assert_same(models("fedstale", beta=0.0, cutoff=6), models("fedau", cutoff=6))
    shares = np.broadcast_to(PRESENT.mean(axis=1, keepdims=True), PRESENT.shape).clip(0.01)
    assert_same(models("fedstale_known", prob=shares, beta=1.0), models("fedvarp"))
    # With beta = 1 and p = 1 it is MIFA, which uses the new memory of those who report, but for empty rounds.
    assert_same(models("fedstale_known", SOMEBODY, np.ones((1, M)), beta=1.0), models("mifa", SOMEBODY))


def test_fednova():
    """With equal steps it is FedAvg; clients with more steps in one direction count as the others."""
    assert_same(models("fednova"), models("fedavg"))
    rule, x = ALGORITHMS["fednova"](), torch.zeros(2, 3)
    done = Done(torch.tensor([[1.0, 0, 0], [0, 9, 0]]), torch.tensor([[1.0], [9.0]]), 0.1)
    report = rule.report(None, Model(x), Job(x), done, None)[1]
    update = rule.merge(Model(x[0]), total(report, 2), 2, ServerView(0, 2, 0.1))
    assert (update.step / update.over).tolist() == [2.5, 2.5, 0]


def test_fedlaavg_is_mifa_with_updates_over_the_rate():
    assert_same(models("fedlaavg"), models("mifa", store="delta_over_lr"))


def test_echo_with_a_cap_of_1_is_fedavg_over_all():
    assert_same(models("echo", cap=1.0), models("fedavg_all"))
    assert np.abs(models("echo") - models("echo", cap=2.0)).max() > 1e-3


def test_a_bound_that_cuts_no_echo_leaves_algorithm_1():
    always = np.ones_like(PRESENT)
    bounded = models("bounded_fedswe", always, k=2.0, progress_over="all")
    np.testing.assert_array_equal(bounded, models("fedswe", always, k=2.0))
    assert np.ptp(bounded, axis=0).max() > 0.05
    assert np.abs(models("bounded_fedswe", k=2.0, progress_over="all") - models("fedswe", k=2.0)).max() > 1e-3


def test_the_bound_settles_at_the_quantile_of_the_echoes():
    rounds, m, p = 600, 40, 0.2
    present = np.random.default_rng(3).random((rounds, m)) < p
    algorithm = ALGORITHMS["bounded_fedswe"](quantile=0.9, bound_rate=0.1)
    engine, bounds = problems.engine("batched", algorithm, problems.quadratic(m), present, Local(steps=1, lr=0.01)), []
    for _ in range(rounds):
        engine.step()
        bounds.append(float(engine.server.state.bound))
    # 0.9 quantile of geometric intervals: the smallest n with 1 - 0.8^n >= 0.9 is 11
    assert 10 <= np.exp(np.mean(np.log(bounds[200:]))) <= 12


def test_extrapolation_by_1_is_interval_weights():
    for least in (0.0, 1.0):
        plain = models("interval_weights", power=0.5, cutoff=6, least=least)
        bounded = models("interval_extrapolation", longest=1.0, power=0.5, cutoff=6, least=least)
        np.testing.assert_array_equal(bounded, plain)
        assert np.abs(models("interval_extrapolation", power=0.5, cutoff=6, least=least) - plain).max() > 0.01


def test_interval_weights_with_least_1_are_fedau_while_the_weights_sum_to_at_most_m():
    few = PRESENT.copy()
    few[:, : M // 2] = False  # the others have intervals near 1, so that their weights sum to less than m
    bounded = models("interval_weights", few, power=1.0, least=1.0, cutoff=6)
    assert_same(bounded, models("fedau", few, cutoff=6))
    assert np.abs(bounded - models("interval_weights", few, power=1.0, cutoff=6)).max() > 0.01


def test_interval_weights_with_least_1_bound_the_step_of_a_group_that_comes_together():
    """Five of six clients come for the first time in round 20: FedAU weighs each by the cutoff."""
    group = np.zeros_like(PRESENT)
    group[:, 0], group[20] = True, True
    fedau, bounded = models("fedau", group, cutoff=6), models("interval_weights", group, power=1.0, least=1.0, cutoff=6)
    assert_same(fedau[:21], bounded[:21])
    weights = 1 + 5 * 6
    np.testing.assert_allclose(fedau[21] - fedau[20], (bounded[21] - bounded[20]) * weights / M, rtol=1e-12)


def test_one_client_alone_is_not_extrapolated():
    alone = np.zeros_like(PRESENT)
    alone[:, 2] = True
    assert_same(models("interval_extrapolation", alone, least=0.0), models("fedavg", alone))


def test_keel_without_its_parts_is_another_rule():
    extrapolated = models("interval_extrapolation", power=0.5, cutoff=6, least=0.0)
    assert_same(models("keel", cutoff=6, steady=0.0), extrapolated)
    assert_same(models("keel", power=0.0, longest=1.0, steady=0.0), models("fedavg"))
    assert np.abs(models("keel", cutoff=6) - extrapolated).max() > 0.01


def test_keel_goes_on_from_a_model_that_replaced_its_own():
    rule, x0 = ALGORITHMS["keel"](), torch.zeros(3, dtype=torch.float64)
    state = rule.server_init(x0)
    for x in (x0 + 1, x0 + 3):  # ahead, before the average
        state, _ = rule.finish(replace(state, x=x), 1, ServerView(t=0, m=5, local_lr=1.0))
    moved = rule.moved_to(state, x0 + 7)
    later, _ = rule.finish(replace(moved, x=moved.ahead), 0, ServerView(t=0, m=5, local_lr=1.0))
    torch.testing.assert_close(later.x, x0 + 7)
    torch.testing.assert_close(later.ahead - later.average, state.ahead - state.average)


def test_focus_with_one_local_step_averages_the_latest_gradients():
    assert_same(models("focus", SOMEBODY, steps=1), models("fedlaavg", SOMEBODY, steps=1))


def test_focus_with_one_local_step_is_the_published_one():
    """The published loop: the server's y collects differences of gradients, and a step is eta y."""
    x, y, g_prev = np.full(3, 0.3), np.zeros(3), np.zeros((M, 3))
    want = [x.copy()]
    for t in range(ROUNDS):
        for i in np.flatnonzero(SOMEBODY[t]):
            g = gradient(i, x, t, 0)
            y, g_prev[i] = y + g - g_prev[i], g
        x = x - local_lr(t) * y
        want.append(x.copy())
    rule, local = ALGORITHMS["focus"](lr=float(M)), Local(steps=1, lr=0.05)
    assert_same(problems.models("batched", rule, problems.quadratic(M), SOMEBODY, local=local), np.stack(want))


def test_a_buffer_is_emptied_when_it_is_full():
    """With two clients that come in turns and a buffer of 2, the model moves in every other round."""
    turns = np.arange(ROUNDS)[:, None] % 2 == np.arange(2)
    found = problems.models("batched", ALGORITHMS["fedbuff"](buffer=2), problems.quadratic(2), turns)
    moved = np.abs(np.diff(found, axis=0)).max(axis=1)
    assert (moved[0::2] == 0).all()
    assert (moved[1::2] > 0).all()
