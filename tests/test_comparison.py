"""Comparisons: labels, tasks with other scores, tidy results, and continuing."""

import csv
import json
import os
import shlex
import signal
import subprocess

import numpy as np
import pytest

import fedswe as package
from fedswe import FedsweError
from fedswe.comparison import file_name, parse_label, split_labels
from fedswe.experiment.configuration import load
from tests.cli.command import fedswe, process, wait_for, workers_of

QUICK = ["task.name=quadratic", "availability.p=0.5", "rounds=6", "evaluate.every=3"]
OWN = """
from dataclasses import dataclass
from typing import ClassVar

from fedswe.tasks import Quadratic, Task


@dataclass(frozen=True)
class Own(Task):
    title: ClassVar[str] = "a task with other scores"
    kind: str = "gap"

    def build(self, setting):
        problem = Quadratic(centers=[[0.0], [1.0], [2.0]]).build(setting)
        scores = {"gap": 1.5, "test_loss": 2.5}
        wanted = {"gap": ["gap"], "loss": ["gap", "test_loss"], "none": []}[self.kind]
        problem.evaluate = lambda x: {name: scores[name] + float(x.sum()) for name in wanted}
        return problem
"""


def test_labels_are_split_outside_brackets():
    text = "fedswe:k=10, ./mine.py:Mine:damp=0.5,pkg.mod:Cls,fedavg:chain=[clip:5,momentum:0.9],mine:Mine,"
    labels = split_labels(text)
    assert labels == [
        "fedswe:k=10", "./mine.py:Mine:damp=0.5", "pkg.mod:Cls", "fedavg:chain=[clip:5,momentum:0.9]", "mine:Mine",
    ]  # fmt: skip
    assert [parse_label(label) for label in labels] == [
        ("fedswe", ["k=10"]),
        ("./mine.py:Mine", ["damp=0.5"]),
        ("pkg.mod:Cls", []),
        ("fedavg", ["chain=[clip:5,momentum:0.9]"]),
        ("mine:Mine", []),
    ]
    names = [file_name(label) for label in labels]
    assert names[:3] == ["fedswe_k10", "mine.Mine_damp0.5", "pkg.mod.Cls"]
    assert not any(set(name) & set(":/[],= ") for name in names)
    assert len(set(names)) == len(names)


def test_a_parameter_without_value_is_one_line():
    with pytest.raises(FedsweError, match="cannot read 'clip' in fedswe:k=1:clip: write key=value"):
        parse_label("fedswe:k=1:clip")


def test_from_python_with_and_without_a_directory(tmp_path):
    experiments = {name: load(None, [*QUICK, f"algorithm.name={name}"]) for name in ("fedswe", "fedavg")}
    kept = package.compare(experiments, seeds=[3, 4], out=tmp_path / "a", jobs=1)
    loose = package.compare(experiments, seeds=[3, 4], jobs=1)
    assert kept.to_csv() == loose.to_csv() == (tmp_path / "a" / "compare.csv").read_text()
    rows = list(csv.DictReader((tmp_path / "a" / "compare_runs.csv").read_text().splitlines()))
    assert [(row["algorithm"], row["model"], row["seed"]) for row in rows] == [
        (a, m, s) for a in ("fedswe", "fedavg") for m in ("server", "client_mean") for s in ("3", "4")
    ]
    means = list(csv.DictReader(kept.to_csv().splitlines()))
    for mean in means:
        own = [
            float(r["train_loss"]) for r in rows if (r["algorithm"], r["model"]) == (mean["algorithm"], mean["model"])
        ]
        assert float(mean["train_loss_mean"]) == pytest.approx(np.mean(own), rel=1e-4)
    other = {"fedswe": load(None, [*QUICK, "local.steps=7"])}
    with pytest.raises(FedsweError, match=r"another configuration \(local.steps"):
        package.compare(other, seeds=[3], out=tmp_path / "a", jobs=1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").touch()
    with pytest.raises(FedsweError, match=r"b holds other files \(thesis.tex\): choose another --out"):
        package.compare(experiments, out=tmp_path / "b", jobs=1)


def test_json_is_one_document(tmp_path, monkeypatch, capsys):
    words = ["compare", *QUICK, "--algorithms", "fedavg,mifa", "--seeds", "3", "--jobs", "1", "--out", tmp_path / "a"]
    code, out, err = fedswe(monkeypatch, capsys, *words, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["headline"] == "train_loss"
    assert [row["algorithm"] for row in found["rows"]] == ["fedavg", "fedavg", "mifa", "mifa"]
    scores = found["rows"][0]["scores"]["train_loss"]
    assert scores == {"mean": found["rows"][0]["seeds"]["3"]["train_loss"], "std": None}
    # the same command again runs nothing and prints the same
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("a/runs/*/model.safetensors")}
    assert fedswe(monkeypatch, capsys, *words, "--json")[1] == out
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("a/runs/*/model.safetensors")} == before


@pytest.mark.parametrize(("kind", "headline"), [("gap", "gap"), ("loss", "test loss"), ("none", "no scores")])
def test_tasks_with_other_scores(tmp_path, kind, headline):
    """In worker processes too, which import the task from the directory of the command."""
    (tmp_path / "mine.py").write_text(OWN)
    words = ["task.name=mine:Own", f"task.kind={kind}", "availability.p=0.5", "rounds=4", "--algorithms", "fedavg,mifa"]
    environment = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = process("compare", *words, "--seeds", "3,4", "--jobs", "2", "--out", "a", **environment)
    out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    assert headline in out
    assert len(list(tmp_path.glob("a/runs/*/model.safetensors"))) == 4
    running = process("compare", *words, "--seeds", "3", "--tune", "0.1,1", "--out", "b", **environment)
    out, err = running.communicate()
    assert (running.returncode, out) == (2, "")
    assert err.startswith("error: --tune chooses rates by the score train_loss, which this task does not have")
    assert not (tmp_path / "b").exists()


def test_an_interrupted_comparison_says_how_to_continue_and_does(tmp_path):
    words = [
        "task.clients=10",
        "task.alpha=1",
        "rounds=400",
        "evaluate.every=400",
        "--algorithms",
        "fedavg,mifa,fedswe:k=2",
    ]
    pipes = {
        "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path, "start_new_session": True,
        "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    }  # fmt: skip
    command = ["compare", *words, "--seeds", "3,4", "--jobs", "2"]
    running = process(*command, **pipes)
    out = tmp_path / "runs" / "001-compare"
    assert len(workers_of(running, out)) == 2
    wait_for(lambda: list(out.glob("runs/*/checkpoint.safetensors")))
    os.killpg(running.pid, signal.SIGINT)
    text, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, "")
    continued = text.splitlines()[-1].removeprefix("stopped   continue with: fedswe ")
    assert shlex.split(continued) == [*command, "--out", "runs/001-compare"]
    assert not (out / "compare.csv").exists()
    finished = process(*shlex.split(continued), **pipes)
    text, err = finished.communicate(timeout=120)
    assert (finished.returncode, err) == (0, "")
    assert "fedswe:k=2" in text
    rows = list(csv.DictReader((out / "compare_runs.csv").read_text().splitlines()))
    assert len(rows) == 3 * 2 * 2
