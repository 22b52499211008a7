"""Every rule in a Flower app ends with the bits of the simulator, also when the server is started anew every round."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedswe.algorithms import FedAvg
from fedswe.core.records import Model
from fedswe.engine.outputs import Outputs
from fedswe.errors import FedsweError
from fedswe.flower import Strategy
from fedswe.registry import instance
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.flower.apps import LOCAL, arrays, client_app, torch_app, trajectory
from tests.flower.grid import LocalGrid

M, ROUNDS = 8, 40
REFUSED = {name for name, rule in ALGORITHMS.items() if rule.needs_probabilities or rule.trains_while_absent}
AT_CLIENT = {name for name, rule in ALGORITHMS.items() if rule.needs_plain_sgd}
ROUNDED = AT_CLIENT | {"fedlaavg"}  # torch.optim's step, and a rate that is not known here, are rounded otherwise
PARAMETERS = {"fedswe": {"k": 3}, "gfedavg": {"period": 6}, "amplified_scaffold": {"period": 6}, "f3ast": {"budget": 3}}
RULES = {name: ALGORITHMS[name](**PARAMETERS.get(name, {})) for name in sorted(ALGORITHMS.keys() - REFUSED)}
CHAINS = ["fedswe:k=3:chain=[momentum:0.5]", "fedavg:chain=[adam]"]


def simulated(rule, problem):
    return problems.trajectory(problems.engine("loop", rule, problem, problems.mask(ROUNDS, M), LOCAL), ROUNDS)


def federated(rule, problem, rounds, app=None, mask=None, **options):
    """The models of a Flower app."""
    mask = problems.mask(ROUNDS, M) if mask is None else mask
    strategy = Strategy(rule, names=True, availability=mask, seed=problems.SEED, fraction_evaluate=0.0, **options)
    return trajectory(strategy, LocalGrid(app or client_app(problem), M), arrays(problem.start), rounds)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_the_bits_of_the_simulator(name, problem):
    app = torch_app(problem) if name in AT_CLIENT else None
    found, expected = federated(RULES[name], problem, ROUNDS, app), simulated(RULES[name], problem)
    if name in ROUNDED:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    else:
        np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found, axis=0)) > 10


@pytest.mark.parametrize("name", [*RULES, *CHAINS])
def test_a_server_that_is_started_anew_after_every_round_has_the_same_bits(name, problem, tmp_path):
    rule = RULES.get(name, name)
    app, rounds = torch_app(problem) if name in AT_CLIENT else None, 25
    straight = federated(rule, problem, rounds, app)
    for r in range(1, rounds + 1):
        last = federated(rule, problem, r, app, store=tmp_path / "f.db")
        np.testing.assert_array_equal(last[-1], straight[r])


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_rule_without_meaning_in_flower_is_refused(name):
    with pytest.raises(FedsweError, match=r"no meaning in Flower|nobody knows"):
        Strategy(ALGORITHMS[name]())


@pytest.mark.parametrize("serve", ["server", "client_mean", "augmented_mean", "ema:0.9:of=client_mean", "window:4"])
@pytest.mark.parametrize("name", ["fedswe", "fedavg"])
def test_the_served_model_is_that_of_the_simulator(name, serve, problem, tmp_path):
    engine = problems.engine("loop", RULES[name], problem, problems.mask(ROUNDS, M), LOCAL)
    outputs, expected = Outputs(engine, {"served": instance("output", serve, "serve")}), []
    for _ in range(20):
        engine.step()
        outputs.after_round()
        expected.append(outputs.models()["served"].numpy())
    for store in (None, tmp_path / "f.db"):
        found = federated(RULES[name], problem, 20, store=store, serve=serve)[1:]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@dataclass(frozen=True)
class Own(FedAvg):
    """A rule of a user whose clients keep a model of their own under the name x: where they ended last."""

    def client_init(self, x0):
        return Model(x0)

    def report(self, c, d, job, done, at):
        return Model(done.end), Model(done.end - job.start + 0.1 * (c.x - job.start))


@dataclass(frozen=True)
class Sent(Own):
    """The same with the model they were sent."""

    def report(self, c, d, job, done, at):
        return Model(job.start), Model(done.end - job.start + 0.1 * (c.x - job.start))


@pytest.mark.parametrize("rule", [Own(), Sent()])
def test_a_rule_of_your_own_has_the_bits_of_the_simulator(rule, problem, tmp_path):
    expected = simulated(rule, problem)
    for options in ({}, {"store": tmp_path / "f.db"}):
        np.testing.assert_array_equal(federated(rule, problem, ROUNDS, **options), expected)
