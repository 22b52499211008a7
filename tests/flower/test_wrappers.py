"""Flower's own wrappers and mods around a rule."""

import numpy as np
import pytest
import torch
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import strategy as flower

from fedswe.errors import FedsweError
from fedswe.flower import Strategy
from tests.flower.apps import arrays, client_app, reply, torch_app, trajectory, vector
from tests.flower.grid import LocalGrid

M = 4
Private = flower.DifferentialPrivacyServerSideFixedClipping


def models(strategy, grid, rounds=6, **options):
    start = arrays(np.zeros(5), counter=False)  # Flower's clipping cannot take whole numbers
    return trajectory(strategy, grid, start, rounds, **options)


@pytest.mark.parametrize("rule", ["fedavg", "fedswe:k=2", "mifa"])
def test_a_wrapper_that_does_nothing_changes_no_bit(rule, problem):
    plain = models(Strategy(rule, names=True), LocalGrid(client_app(problem), M))
    made = Private(Strategy(rule, names=True), 0.0, 1e9, M)
    np.testing.assert_allclose(models(made, LocalGrid(client_app(problem), M)), plain, rtol=0, atol=1e-15)


@pytest.mark.parametrize("rule", ["fedavg", "fedswe:k=2", "fedasync", "fedavg:chain=[momentum:0.5]"])
def test_noise_is_in_all_that_follows(rule, problem):
    """The next round starts from the noisy model: what is sent to clients never is the model without noise."""
    grid = LocalGrid(client_app(problem), M)
    found = models(Private(Strategy(rule, names=True), 0.1, 10.0, M), grid)
    for t in range(1, 6):
        for client in range(M):
            np.testing.assert_array_equal(grid.starts[t + 1, client], found[t])


def test_what_multiplies_progress_multiplies_what_one_client_changes(problem):
    """The noise is made for clipping_norm / n. FedSWE's client that was away for 4 rounds counts 5 times."""
    changes = {}
    for rule in ("fedavg", "fedswe:k=0"):
        ends = []
        for pull in (0.5, 1.5):
            grid = LocalGrid(client_app(problem), M)

            def pulled(message, answer, pull=pull):
                if message.content["config"]["server-round"] < 5:
                    return answer
                return reply(message, vector(message.content["arrays"]) + pull * torch.eye(5)[0])

            grid.instead = {0: pulled}
            mask = np.ones((5, M), bool)
            mask[:4, 0] = False
            made = Strategy(rule, names=True, availability=mask, limit_moves=False, min_train_nodes=1)
            ends.append(models(Private(made, 0.0, 100.0, M), grid, 5)[-1])
        changes[rule] = np.linalg.norm(ends[1] - ends[0])
    assert changes["fedavg"] == pytest.approx(1 / M)
    assert changes["fedswe:k=0"] == pytest.approx(5 / M)


def test_clipping_at_the_client_is_from_its_own_start(problem):
    grid = LocalGrid(client_app(problem, mods=[fixedclipping_mod]), M)
    made = flower.DifferentialPrivacyClientSideFixedClipping(Strategy("fedavg"), 0.0, 0.01, M)
    moved = np.linalg.norm(np.diff(models(made, grid), axis=0), axis=1)
    assert (moved <= 0.01 + 1e-12).all()
    assert (moved > 0.001).all()


@pytest.mark.parametrize("rule", ["fedavg", "fedswe:k=2"])
@pytest.mark.parametrize("side", ["server", "client"])
def test_adaptive_clipping(rule, side, problem):
    if side == "server":
        made = flower.DifferentialPrivacyServerSideAdaptiveClipping(Strategy(rule), 0.1, M)
        app = client_app(problem)
    else:
        made = flower.DifferentialPrivacyClientSideAdaptiveClipping(Strategy(rule), 0.1, M)
        app = client_app(problem, mods=[adaptiveclipping_mod])
    assert np.isfinite(models(made, LocalGrid(app, M), 4)).all()


def test_a_wrapper_refuses_what_it_would_break(problem, tmp_path):
    grid = LocalGrid(client_app(problem), M)
    with pytest.raises(FedsweError, match="a store needs start"):
        models(Private(Strategy("fedavg", store=tmp_path / "f.db"), 0.1, 1.0, M), grid)
    with pytest.raises(FedsweError, match='use serve="server"'):
        models(Private(Strategy("fedavg", serve="ema"), 0.1, 1.0, M), grid)
    grid.instead = dict.fromkeys(range(M), lambda message, reply: None)
    with pytest.raises(FedsweError, match="round 1 was tried 1 times"):  # Flower's own loop would go on
        models(Private(Strategy("fedavg", fraction_evaluate=0.0), 0.1, 1.0, M), grid, timeout=0.05)


def test_a_strategy_can_be_used_again_inside_a_wrapper(problem):
    """After a start of its own, and after another of the wrapper: noise belongs to the model, and rounds begin anew."""
    inner = Strategy("fedavg", names=True)
    models(inner, LocalGrid(client_app(problem), M), 2)
    made = Private(inner, 0.1, 10.0, M)
    for _ in range(2):
        grid = LocalGrid(client_app(problem), M)
        found = models(made, grid, 3)
        np.testing.assert_array_equal(grid.starts[1, 0], np.zeros(5))
        np.testing.assert_array_equal(grid.starts[3, 0], found[2])


# the mod ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": torch.optim.Adam}, "Adam is not torch.optim.SGD"),
        ({"momentum": 0.9}, "no momentum and no weight decay"),
        ({"weight_decay": 0.1}, "no momentum and no weight decay"),
        ({"closure": [lambda: 0.0]}, "without a closure"),
    ],
)
def test_a_rule_that_needs_plain_sgd_says_so(options, words, problem):
    with pytest.raises(FedsweError, match=words):
        Strategy("scaffold").start(LocalGrid(torch_app(problem, **options), M), arrays(np.zeros(5)), 1)


def test_without_the_mod_a_rule_that_needs_it_says_so(problem):
    app = client_app(problem, mods=[])
    with pytest.raises(FedsweError, match="ClientApp"):
        Strategy("focus").start(LocalGrid(app, M), arrays(np.zeros(5)), 1)
    # A rule that does not need it takes an app without it.
    assert Strategy("fedavg").start(LocalGrid(app, M), arrays(np.zeros(5)), 1).train_metrics_clientapp[1]["loss"] == 1.0
