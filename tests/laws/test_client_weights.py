"""A client of weight w counts as w clients: integer weights give the run with so many copies of each client."""

from dataclasses import replace

import numpy as np
import pytest

from fedswe import Experiment, run
from fedswe.algorithms import F3AST, MIFA, FedAvg, FedBuff
from fedswe.availability.mask import Rows
from fedswe.core.local import Local
from fedswe.engine.columns import Consensus
from fedswe.errors import FedsweError
from fedswe.registry import resolve
from fedswe.tasks import Digits, Quadratic
from tests import problems
from tests.laws.cases import CASES, make

M, ROUNDS = 8, 40
COPIES = np.array([1, 3, 2, 1, 5, 1, 1, 2])
WEIGHABLE = [case for case in CASES if make(case).takes_weights]


def engine(kind, algorithm, who, weights=None):
    """Of these clients of the workbench, with full gradients."""
    u, a = np.array(problems.centers(M))[who].tolist(), np.array(problems.curvatures(M))[who].tolist()
    problem = Quadratic(centers=u, curvature=a, start=0.3, weights=weights).build(problems.setting())
    rows = Rows(problems.mask(ROUNDS, M)[:, who], problems.probabilities(ROUNDS, M)[:, who])
    return problems.engine(kind, algorithm, problem, rows, Local(steps=4, lr=0.05))


@pytest.mark.parametrize("kind", problems.ENGINES)
@pytest.mark.parametrize("case", WEIGHABLE)
def test_a_weight_is_a_number_of_copies(case, kind):
    algorithm, who = make(case), np.repeat(np.arange(M), COPIES)
    # k is a number of clients whose mean weight is 1.
    more = replace(algorithm, k=algorithm.k * len(who) / M) if getattr(algorithm, "k", 0) else algorithm
    weighted, copied = engine(kind, algorithm, np.arange(M), COPIES.tolist()), engine("batched", more, who)
    for _ in range(ROUNDS):
        weighted.step()
        copied.step()
        np.testing.assert_allclose(weighted.server_model(), copied.server_model(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(weighted.client_mean(), copied.client_mean(), rtol=1e-9, atol=1e-9)
    scores, same = (e.evaluate(e.server_model()) for e in (weighted, copied))
    assert scores == pytest.approx(same, rel=1e-9)
    if not getattr(algorithm, "k", 0):
        assert Consensus().values(weighted) == pytest.approx(Consensus().values(copied), rel=1e-9, abs=1e-12)


def test_those_that_count_or_select_single_clients_refuse():
    for algorithm in (
        F3AST(),
        FedBuff(),
        MIFA(start="wait"),
        resolve("algorithm", "./examples/own_algorithm.py:Damped")(),
    ):
        with pytest.raises(FedsweError, match=r"takes no task\.weights"):
            engine("batched", algorithm, np.arange(M), COPIES.tolist())
    assert {CASES[case][0] for case in CASES} - {CASES[case][0] for case in WEIGHABLE} == {"fedbuff"}


def test_samples():
    task = Digits(clients=9, partition="uneven", weights="samples")
    problem = task.build(problems.setting())
    np.testing.assert_allclose(problem.weights, problem.sizes / problem.sizes.mean())
    base = Experiment(12, problems.SEED, task=task, algorithm=FedAvg(), local=Local(epochs=1), dtype="float64")
    ends = [run(replace(base, engine=kind)).models for kind in ("batched", "loop")]
    given = run(replace(base, task=replace(task, weights=problem.sizes.tolist()))).models
    for name, x in ends[0].items():
        np.testing.assert_allclose(x, ends[1][name], rtol=1e-9)
        np.testing.assert_array_equal(x, given[name])
    assert not np.allclose(ends[0]["server"], run(replace(base, task=replace(task, weights=None))).models["server"])
    with pytest.raises(FedsweError, match="one for each of 9 clients"):
        replace(task, weights=[1.0, 2.0]).build(problems.setting())
    with pytest.raises(FedsweError, match="weights must be"):
        replace(task, weights=[1.0, 0.0])
    with pytest.raises(FedsweError, match="give a list of numbers"):
        Quadratic(weights="samples").build(problems.setting())
