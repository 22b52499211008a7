"""Configuration: what is written can be read, and mistakes get one line."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedswe import Evaluate, Experiment, Record, run
from fedswe.algorithms import ALGORITHMS, MIFA, FedAWE, FedSWE
from fedswe.engine.work import Local
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import dump, experiment, load, load_text
from fedswe.tasks import Digits, Quadratic


@pytest.mark.parametrize("name", ALGORITHMS)
def test_round_trip(name):
    value = load(None, [f"algorithm.name={name}", "algorithm.lr=0.25", "task.clients=7", "availability.p=0.5"])
    assert isinstance(value.algorithm, ALGORITHMS[name])
    assert load_text(dump(value), "x") == value


def test_round_trip_of_lists():
    value = Experiment(task=Quadratic(centers=[[1.0, 2.0], [3.0, 4.0]], curvature=[1.0, 2.0]))
    assert load_text(dump(value), "x") == value


def test_numbers_of_numpy_are_written_as_plain_ones():
    task = Quadratic(centers=np.eye(2), curvature=[np.float32(1), 2])
    value = Experiment(rounds=np.int64(7), algorithm=FedSWE(k=np.float64(3)), task=task)
    plain = Experiment(rounds=7, algorithm=FedSWE(k=3), task=Quadratic(centers=[[1, 0], [0, 1]], curvature=[1, 2]))
    assert load_text(dump(value), "x") == plain


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"engine": "fast"}, "engine must be one of batched, loop, not 'fast'"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64, not 'float16'"),
        ({"algorithm": MIFA(store="deltas")}, "algorithm.store must be one of delta, delta_over_lr"),
        ({"task": Digits(partition="iid")}, "task.partition must be one of"),
        ({"local": Local(schedule="cosine")}, "local.schedule must be one of inverse_sqrt, constant, not 'cosine'"),
        ({"evaluate": Evaluate(model=["server", "best"])}, "evaluate.model must be one of server, .*, not 'best'"),
        ({"record": Record(probes=["consenus"])}, "record.probes must be one of consensus, auxiliary"),
    ],
)
def test_a_word_nobody_knows_is_refused_from_python_too(parts, message):
    with pytest.raises(FedsweError, match=message):
        Experiment(**parts)


def test_overrides(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('rounds = 9\n[algorithm]\nname = "fedswe"\nk = 3\n[task]\nclients = 4\n')
    value = load(file, ["algorithm.k=0", "rounds=200", "availability.name=stationary", "availability.p=[0.1,0.2]"])
    assert value.algorithm == FedSWE(k=0)
    assert (value.rounds, value.task.clients, value.availability.p) == (200, 4, [0.1, 0.2])
    # another algorithm does not inherit the parameters of the one it replaces
    assert load(file, ["algorithm.name=fedawe"]).algorithm == FedAWE()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algoritm.k=1"], "unknown key algoritm: did you mean algorithm?"),
        (["algorithm.kk=1"], "unknown key algorithm.kk of fedswe: did you mean k?"),
        (["algorithm.name=fedsw"], "unknown algorithm 'fedsw': did you mean fedswe?"),
        (["algorithm.name=fedawe", "algorithm.k=3"], "unknown key algorithm.k of fedawe"),
        (["task.name=shakespeare"], "unknown task 'shakespeare': known are quadratic, digits, npz"),
        (["algorithm.k=-1"], "algorithm: k must be 0 or more, not -1"),
        (["algorithm.k=nan"], "algorithm: k must be 0 or more, not nan"),
        (["algorithm.k=many"], "algorithm.k: input should be a valid number"),
        (["algorithm.lr=0"], "algorithm: lr must be positive"),
        (["algorithm.echo_cap=0.5"], "echo_cap must be 0 (off) or at least 1"),
        (["availability.p=1.5"], "availability: p must be within [0, 1], not 1.5"),
        (["availability.p=[0.5,-0.1]"], "availability: p must be within [0, 1], not -0.1"),
        (["availability.p=often"], "availability.p"),
        (["availability.gamma=0.9"], "gamma must be within [0, 0.5]"),
        (["availability.name=alternating", "availability.period=5"], "period must be even"),
        (["availability.name=mask"], "availability.file is missing"),
        (["availability.name=markov", "availability.stream=legacy"], "no legacy stream"),
        (["rounds=0"], "rounds must be at least 1"),
        (["rounds=2.5"], "rounds: input should be a valid integer"),
        (["seed=-1"], "seed must be from 0"),
        (["engine=fast"], "engine: input should be 'batched' or 'loop'"),
        (["dtype=float16"], "dtype: input should be 'float32' or 'float64'"),
        (["local.lr=-1"], "local: lr must be positive"),
        (["local.steps=0"], "steps must be at least 1"),
        (["local=3"], "local must be a section"),
        (["evaluate.model=[]"], "model is empty"),
        (["evaluate.model=['best']"], "evaluate.model"),
        (["task.clients=0"], "clients must be at least 1"),
        (["task.alpha=0"], "alpha must be positive"),
        (["task.name=quadratic", "task.noise=-1"], "noise must be 0 or more"),
        (["rounds"], "overrides are section.key=value"),
        (["rounds=3", "rounds.x=1"], "rounds is a value, not a section"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(FedsweError) as caught:
        load(None, words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


OWN = """
from dataclasses import dataclass
from typing import ClassVar

from fedswe.tasks import Quadratic, Task


@dataclass(frozen=True)
class Own(Task):
    title: ClassVar[str] = "a task without train_loss"
    clients: int = 3

    def build(self, setting):
        problem = Quadratic(centers=[[float(i)] for i in range(self.clients)]).build(setting)
        problem.evaluate = lambda x: {"gap": float(x.abs().sum())}
        return problem


class Unfinished(Task):
    pass
"""


def test_a_task_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    value = load(None, ["task.name=mine:Own", "task.clients=4", "availability.p=0.5", "rounds=2"])
    assert load_text(dump(value), "x") == value
    assert "server_gap" in run(value).columns
    for name, message in (
        ("mine:Other", "cannot import mine:Other"),
        ("yours:Own", "cannot import yours:Own"),
        ("mine:dataclass", "is not a dataclass derived from fedswe.tasks.Task"),
        ("mine:Unfinished", "with a method build"),
    ):
        with pytest.raises(FedsweError, match=message):
            load(None, [f"task.name={name}"])


def test_files_that_cannot_be_read(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("rounds = [")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", tmp_path, broken, binary):
        with pytest.raises(FedsweError) as caught:
            load(path)
        assert path.name in str(caught.value)


def test_defaults_are_the_documented_ones():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    text = re.search(r"```toml\n(.*?)```", page, re.DOTALL).group(1)
    assert load_text(text, "docs/configuration.md") == experiment({}) == Experiment()
    written, known = tomllib.loads(text), tomllib.loads(dump(Experiment()))
    assert written.keys() == known.keys()
    for section in ("task", "local", "evaluate", "record"):
        assert written[section].keys() == known[section].keys()
