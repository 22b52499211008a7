"""Files that a run was started with: which are recorded, and that a run does not continue with others."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys

import numpy as np
import pytest

import fedswe
from fedswe.algorithms import FedAvg
from fedswe.availability import Always, Intervals, Mask
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import files, load, recorded, refuse_changed
from fedswe.experiment.experiment import Experiment
from fedswe.experiment.runner import StopRun
from fedswe.tasks import Npz, Quadratic

PLUG_IN = """
from dataclasses import dataclass
from beside_it import FACTOR
from fedswe.algorithms import FedAvg


@dataclass(frozen=True)
class Mine(FedAvg):
    title = "uses files beside it"
"""
BESIDE = {
    "plug_in.py": PLUG_IN,
    "beside_it.py": "FACTOR = 1.0\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder, with a plug-in."""
    for name, text in BESIDE.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def stopped(value, out):
    """A run directory with a checkpoint of the second round."""

    def watch(t, _):
        if t == 2:
            raise StopRun

    with pytest.raises(StopRun):
        fedswe.run(value, out=out, watch=watch)
    return out


@pytest.mark.parametrize("name", ["./plug_in.py", "plug_in"])
def test_the_named_file_is_recorded_and_not_what_it_imports(name, folder):
    value = load(None, [f"algorithm.name={name}:Mine"])
    before = recorded(value)
    assert before == {"sources": {name: hashlib.sha256(PLUG_IN.encode()).hexdigest()}}
    (folder / "beside_it.py").write_text("FACTOR = 2.0\n")
    refuse_changed(before, value, folder)


def test_a_plug_in_is_recognised_from_another_directory(folder):
    out = stopped(
        load(None, ["algorithm.name=./plug_in.py:Mine", "task.name=quadratic", "availability.name=always", "rounds=4"]),
        folder / "out",
    )
    config = out / "config.toml"
    config.write_text(config.read_text().replace("./plug_in.py", f"{folder}/plug_in.py"))
    value = load(config, [])
    before = json.loads((out / "run.json").read_text())
    refuse_changed(before, value, out)
    changed = {"./plug_in.py": "of another version"}
    with pytest.raises(FedsweError, match=f"^{folder}/plug_in.py has changed"):
        refuse_changed({"sources": before["sources"] | changed}, value, out)


# data files ----------------------------------------------------------------------------------------------
def tables(folder, seed):
    """The contents of all files below; another seed, other contents."""
    random = np.random.default_rng(seed)
    np.savetxt(folder / "mask.csv", random.integers(0, 2, (6, 4)) | np.eye(6, 4, dtype=int), fmt="%d", delimiter=",")
    np.savetxt(folder / "prob.csv", random.uniform(0.2, 0.8, (1, 4)), delimiter=",")
    np.savetxt(folder / "centers.csv", random.normal(size=(4, 2)), delimiter=",")
    np.savez(
        folder / "data.npz",
        x_train=random.normal(size=(40, 3)), y_train=np.arange(40) % 2,
        x_test=random.normal(size=(8, 3)), y_test=np.arange(8) % 2,
    )  # fmt: skip
    lines = [f"{client},{start},{start + 1200 + seed}" for client in range(4) for start in (0, 1800)]
    (folder / "log.csv").write_text("\n".join(["client,start,end", *lines]) + "\n")


PLAIN = Quadratic(centers=[[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
READ = {
    "mask.csv": lambda: {"task": PLAIN, "availability": Mask(file="mask.csv")},
    "prob.csv": lambda: {"task": PLAIN, "availability": Mask(file="mask.csv", prob_file="prob.csv")},
    "log.csv": lambda: {"task": PLAIN, "availability": Intervals(file="log.csv", round_seconds=600)},
    "centers.csv": lambda: {"task": Quadratic(centers_file="centers.csv"), "availability": Always()},
    "data.npz": lambda: {"task": Npz(file="data.npz", clients=4, alpha=10.0), "availability": Always()},
}


@pytest.mark.parametrize("name", READ)
def test_a_run_does_not_continue_with_other_data(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables(tmp_path, 1)
    value = Experiment(rounds=4, algorithm=FedAvg(), **READ[name]())
    assert name in files(value)
    whole = fedswe.run(value, out=tmp_path / "whole")
    out = stopped(value, tmp_path / "out")
    content = (tmp_path / name).read_bytes()
    tables(tmp_path, 2)
    changed = (tmp_path / name).read_bytes()
    assert changed != content
    tables(tmp_path, 1)
    (tmp_path / name).write_bytes(changed)  # only this one
    message = f"^{name} has changed since the run in {out} was started: restore it, or start a new run$"
    with pytest.raises(FedsweError, match=message):
        fedswe.resume(out)
    (tmp_path / name).write_bytes(content)
    rows = [{**row, "seconds": 0} for row in fedswe.resume(out).history.rows]
    assert rows == [{**row, "seconds": 0} for row in whole.history.rows]


def test_a_file_that_is_gone_is_named_by_the_part_that_reads_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables(tmp_path, 1)
    out = stopped(Experiment(rounds=4, task=PLAIN, availability=Mask(file="mask.csv")), tmp_path / "out")
    shutil.move("mask.csv", "elsewhere.csv")
    with pytest.raises(FedsweError, match=r"availability\.file: there is no file mask\.csv"):
        fedswe.resume(out)
