"""Small work gets one thread, large work all; the caller's number is restored."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import fedswe
from fedswe import Experiment
from fedswe.algorithms import FedAvg, FedPBC
from fedswe.availability import Always, Stationary
from fedswe.core.local import Local
from fedswe.engine.threads import chosen, limited_to
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import assemble
from fedswe.experiment.runner import Runner, StopRun, advance, threads_of
from fedswe.grid.cell import Cell
from fedswe.grid.stack import run_stack
from fedswe.grid.store import RunStore
from fedswe.tasks import Quadratic


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    with limited_to(2):
        yield


def engine(clients=4, dimension=10, batch_size=32, **changes):
    value = Experiment(
        rounds=3,
        task=Quadratic(centers=np.arange(clients * dimension, dtype=float).reshape(clients, dimension).tolist()),
        local=Local(batch_size=batch_size),
        **{"availability": Always(), "algorithm": FedAvg(), **changes},
    )
    return assemble(value)


def test_small_work_has_one_thread_and_large_work_all():
    assert chosen([engine()]) == 1
    assert chosen([engine(batch_size=10**6)]) == 2  # 4 * 10 * 10**6 products


def test_only_clients_at_work_count():
    assert chosen([engine(100, batch_size=30_000)]) == 2
    assert chosen([engine(100, batch_size=30_000, availability=Stationary(p=0.1))]) == 1
    assert chosen([engine(100, batch_size=30_000, availability=Stationary(p=0.1), algorithm=FedPBC())]) == 2
    assert chosen([engine(100, batch_size=30_000, engine="loop")]) == 1


def test_runs_of_one_stack_count_together():
    one = engine(batch_size=10**5)
    assert chosen([one]) == 1
    assert chosen([one] * 6) == 2


def test_weights_of_a_convolution_are_used_many_times():
    words = ["task.clients=10", "task.alpha=1", "availability.name=always", "local.batch_size=64"]
    dense, convolution = (assemble(load(None, [*words, f"task.model={model}"])) for model in ("mlp", "cnn"))
    assert convolution.problem.start.numel() < 1.5 * dense.problem.start.numel()
    assert chosen([dense]) == 1
    assert chosen([convolution]) == 2


def test_spinning_threads_pay_later(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert chosen([engine(batch_size=10**6)]) == 1
    assert chosen([engine(batch_size=10**8)]) == 2


def test_the_users_choice_wins(monkeypatch):
    assert chosen([engine()], asked=2) == 2
    assert chosen([engine(batch_size=10**6)], asked=1) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert chosen([engine()]) == 2
    with limited_to(1):
        assert chosen([engine(batch_size=10**6)]) == 1


def test_a_run_computes_with_the_number_and_restores_it(tmp_path):
    seen = []

    class Watched(Quadratic):
        def build(self, setting):
            problem = super().build(setting)
            gradients = problem.gradients
            problem.gradients = lambda *a, **k: (seen.append(torch.get_num_threads()), gradients(*a, **k))[1]
            return problem

    value = Experiment(rounds=2, task=Watched(), availability=Always(), algorithm=FedAvg())
    runners = [Runner(value)]
    rounds = advance(runners, threads_of(runners))
    next(rounds)
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2  # while the generator waits too
    list(rounds)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("asked", "used"), [(0, 1), (2, 2)])
def test_run_json_has_the_number(asked, used, tmp_path):
    value = Experiment(rounds=1, threads=asked, task=Quadratic(), availability=Always())
    fedswe.run(value, out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "run.json").read_text())["threads"] == used


LOOKED = []  # at these rounds


@dataclass(frozen=True)
class Counted(Stationary):
    def probabilities(self, t, base):
        LOOKED.append(t)
        return super().probabilities(t, base)


def test_the_number_is_chosen_once_for_each_run(tmp_path):
    def stop(t, _):
        raise StopRun

    # Of the ten rounds that are looked at, a run of two rounds samples only the first two itself.
    LOOKED.clear()
    value = Experiment(rounds=2, task=Quadratic(), availability=Counted(p=0.5), algorithm=FedAvg())
    with pytest.raises(StopRun):
        fedswe.run(value, out=tmp_path / "out", watch=stop)
    assert LOOKED.count(9) == 1
    fedswe.resume(tmp_path / "out")
    assert LOOKED.count(9) == 2
    assert list(run_stack([Cell("one", value)], RunStore(tmp_path / "grid"), 1e9, lambda: False)) == [0, 1, 2]
    assert LOOKED.count(9) == 3
