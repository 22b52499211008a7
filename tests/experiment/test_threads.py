"""One thread unless asked; the caller's number is restored."""

import json
from dataclasses import replace

import pytest
import torch

import fedswe
from fedswe import Experiment
from fedswe.algorithms import FedAvg
from fedswe.availability import Always
from fedswe.experiment.runner import Runner, advance, limited_to, threads_of
from fedswe.tasks import Quadratic


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with limited_to(2):
        yield


@pytest.mark.parametrize(("asked", "used"), [([0], 1), ([2], 2), ([0, 3], 3)])
def test_one_thread_unless_asked(asked, used):
    value = Experiment(rounds=1, task=Quadratic(), availability=Always())
    assert threads_of([Runner(replace(value, threads=threads)) for threads in asked]) == used


def test_the_environment_is_asked_too(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads_of([Runner(Experiment(rounds=1, task=Quadratic(), availability=Always()))]) == 2


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
