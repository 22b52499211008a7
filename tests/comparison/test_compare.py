"""Comparisons: labels, tasks with other scores, tidy results, and continuing."""

import csv
import json
import signal
import subprocess

import numpy as np
import pytest

import fedswe as package
from fedswe import FedsweError
from fedswe.algorithms import FedAvg, FedSWE
from fedswe.comparison.measured_run import measured_runs, runs_table, scores_of
from fedswe.errors import FedsweWarning
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


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def test_from_python_with_and_without_a_directory(tmp_path):
    experiments = {name: load(None, [*QUICK, f"algorithm.name={name}"]) for name in ("fedswe", "fedavg")}
    kept = package.compare(experiments, seeds=[3, 4], out=tmp_path / "a", jobs=1)
    loose = package.compare(experiments["fedswe"], ["fedswe", FedAvg()], seeds=[3, 4], jobs=1)
    assert kept.to_csv() == loose.to_csv() == (tmp_path / "a" / "compare.csv").read_text()
    assert kept.summary_csv() == loose.summary_csv() == (tmp_path / "a" / "compare_summary.csv").read_text()
    other = {"fedswe": load(None, [*QUICK, "local.steps=7"])}
    with pytest.raises(FedsweError, match=r"another configuration \(local.steps"):
        package.compare(other, seeds=[3], out=tmp_path / "a", jobs=1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").touch()
    with pytest.raises(FedsweError, match=r"b holds other files \(thesis.tex\): choose another out="):
        package.compare(experiments, out=tmp_path / "b", jobs=1)


def test_the_table_has_every_score_of_every_run_and_the_summary_comes_from_it(tmp_path):
    base = load(None, [*QUICK, "rounds=60", "evaluate.every=7"])
    labels = ["fedswe:k=3", "gfedavg"]
    found = package.compare(base, labels, seeds=[3, 4], tune=[0.05, 0.3], out=tmp_path / "a", jobs=1)
    rows = rows_of(found.to_csv())
    assert list(rows[0]) == [
        "algorithm", "seed", "local_lr", "tuning", "chosen", "round", "model", "score", "value",
    ]  # fmt: skip
    keys = [tuple(row[c] for c in ("algorithm", "seed", "local_lr", "round", "model", "score")) for row in rows]
    assert len(set(keys)) == len(keys)
    assert {(row["seed"], row["tuning"]) for row in rows} == {("1", "true"), ("3", "false"), ("4", "false")}
    assert {(r["algorithm"], r["local_lr"]) for r in rows if r["tuning"] == "true"} == {
        (label, rate) for label in labels for rate in ("0.05", "0.3")
    }
    # every number is that of its run directory
    for row in rows[:: len(rows) // 50]:
        name = f"{row['algorithm'].replace(':k=3', '_k3')}-lr{row['local_lr']}-seed{row['seed']}"
        history = package.load(tmp_path / "a" / "runs" / name).history
        (there,) = [r for r in history.rows if r["round"] == int(row["round"])]
        assert float(row["value"]) == there[f"{row['model']}_{row['score']}"]
    available = found.table[found.table["score"] == "available"]  # a column that belongs to no model
    assert set(available["model"]) == {""}
    # the summary is the mean over seeds of the last 50 rounds of the chosen rate
    for line in rows_of(found.summary_csv()):
        mine = [r for r in rows if (r["algorithm"], r["model"]) == (line["algorithm"], line["model"])]
        mine = [r for r in mine if (r["chosen"], r["tuning"], r["score"]) == ("true", "false", "train_loss")]
        assert {r["local_lr"] for r in mine} == {line["local_lr"]}
        means = [np.mean([float(r["value"]) for r in mine if r["seed"] == s and int(r["round"]) > 10]) for s in "34"]
        assert float(line["train_loss_mean"]) == pytest.approx(np.mean(means), rel=1e-5)
        assert float(line["train_loss_std"]) == pytest.approx(np.std(means, ddof=1), rel=1e-4)


@pytest.mark.parametrize(
    ("algorithms", "said"),
    [
        ([], "algorithms= is empty"),
        ("fedavg", "algorithms must be a list"),
        ([FedAvg], "algorithms must be .*FedAvg"),
        ([FedSWE(k=2), "fedswe:k=2"], "algorithms has fedswe:k=2 twice"),
        (["fedsve"], "did you mean fedswe"),
    ],
)
def test_mistakes_in_the_list_of_algorithms(algorithms, said):
    with pytest.raises(FedsweError, match=said):
        package.compare(load(None, QUICK), algorithms)


def test_a_run_that_diverged_is_in_no_mean(tmp_path, monkeypatch, capsys):
    """One of two seeds explodes: its loss is finite, and a mean over the two would look like a result."""
    words = ["task.name=quadratic", "availability.p=0.3", "rounds=30", "evaluate.every=10"]
    unsteady = ["--algorithms", "fedavg,gfedavg:amplification=40:period=10", "--seeds", "3,4", "--jobs", 1]
    code, text, _ = fedswe(monkeypatch, capsys, "compare", *words, *unsteady, "--out", tmp_path / "a")
    (line,) = [line for line in text.splitlines() if line.startswith("│ gfedavg")]
    assert (code, line.count("diverged")) == (0, 2)
    summary = {(r["algorithm"], r["model"]): r for r in rows_of((tmp_path / "a" / "compare_summary.csv").read_text())}
    assert summary["fedavg", "server"]["diverged"] == "0"
    bad = summary["gfedavg:amplification=40:period=10", "server"]
    assert (int(bad["diverged"]) > 0, bad["train_loss_mean"]) == (True, "nan")


def test_overrides_that_would_be_ignored_are_refused(tmp_path, monkeypatch, capsys):
    words = ["compare", *QUICK, "--out", tmp_path / "a", "--algorithms"]
    code, _, err = fedswe(monkeypatch, capsys, *words, "fedavg", "algorithm.name=mifa")
    assert (code, err.count("\n")) == (2, 1)
    assert "write --algorithms mifa, not algorithm.name=mifa" in err
    code, _, err = fedswe(monkeypatch, capsys, *words, "fedswe,fedavg", "algorithm.lr=0.5")
    assert (code, err) == (2, "error: algorithm.lr=0.5 would be ignored for fedavg: write --algorithms fedavg:lr=0.5\n")
    assert not (tmp_path / "a").exists()


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
def test_tasks_with_other_scores(tmp_path, monkeypatch, capsys, kind, headline):
    (tmp_path / f"score_{kind}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    words = [f"task.name=score_{kind}:Own", f"task.kind={kind}", "availability.p=0.5", "rounds=4"]
    words += ["--algorithms", "fedavg,mifa", "--seeds", "3,4", "--jobs", "1", "--out", "a"]
    code, out, err = fedswe(monkeypatch, capsys, "compare", *words)
    assert (code, err) == (0, "")
    assert headline in out
    assert len(list(tmp_path.glob("a/runs/*/model.safetensors"))) == 4


def test_a_chosen_score_is_shown_first_and_tuned_by(tmp_path, monkeypatch, capsys):
    base = load(None, ["task.clients=5", "rounds=4", "evaluate.every=2", "evaluate.score=test_loss"])
    result = package.compare(base, ["fedavg", "fednova"], seeds=(3,), tune=(0.1, 0.3), out=tmp_path / "a", jobs=1)
    assert result.headline == "test_loss"
    assert scores_of(runs_table(measured_runs([tmp_path / "a"])))[0] == "test_loss"
    assert scores_of(runs_table(measured_runs([result])))[0] == "test_loss"
    words = ["task.clients=5", "rounds=4", "--out", str(tmp_path / "b")]
    code, _, err = fedswe(monkeypatch, capsys, "run", *words, "evaluate.score=test_los")
    assert code == 2
    assert "no such score; there are train_loss, train_accuracy, test_loss, test_accuracy" in err
    assert not (tmp_path / "b").exists()


def test_workers_import_a_task_from_the_directory_of_the_command(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    words = ["task.name=mine:Own", "task.kind=gap", "availability.p=0.5", "rounds=4", "--algorithms", "fedavg,mifa"]
    environment = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = process("compare", *words, "--seeds", "3,4", "--jobs", "2", "--out", "a", **environment)
    out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    assert "gap" in out
    assert len(list(tmp_path.glob("a/runs/*/model.safetensors"))) == 4


def test_rates_are_chosen_by_the_score_that_the_user_names(tmp_path, monkeypatch):
    (tmp_path / "own_scores.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    words = ["task.name=own_scores:Own", "availability.p=0.5", "rounds=4", "evaluate.every=2"]
    base = load(None, [*words, "task.kind=loss"])
    options = {"algorithms": ["fedavg"], "seeds": [3], "tune": [0.01, 0.5], "jobs": 1}
    with pytest.raises(FedsweError, match=r"no train_loss to choose rates by: name .* tune_by=, one of gap, test_loss"):
        package.compare(base, **options)
    with pytest.raises(FedsweError, match=r"no train_los.* name .* tune_by=, one of gap, test_loss"):
        package.compare(base, tune_by="train_loss", **options)
    with pytest.raises(FedsweError, match="is more or less better\\? Write max:gap or min:gap"):
        package.compare(base, tune_by="gap", **options)
    with pytest.raises(FedsweError, match="must be a score, max:SCORE or min:SCORE"):
        package.compare(base, tune_by="best:gap", **options)
    with pytest.raises(FedsweError, match="has no scores to choose rates by: leave out tune="):
        package.compare(load(None, [*words, "task.kind=none"]), tune_by="max:gap", **options)
    with pytest.raises(FedsweError, match="tune_by= needs tune="):
        package.compare(base, ["fedavg"], tune_by="min:gap")
    # the model grows from 0 towards 1, faster with the larger rate, and the gap with it
    chosen = {by: package.compare(base, tune_by=by, **options).summary["local_lr"][0] for by in ("min:gap", "max:gap")}
    assert chosen == {"min:gap": 0.01, "max:gap": 0.5}
    with pytest.warns(FedsweWarning, match="chosen by test_loss: the test data are then no longer unseen"):
        assert package.compare(base, tune_by="test_loss", **options).summary["local_lr"][0] == 0.01


def test_a_rate_with_which_the_model_diverged_is_not_chosen(tmp_path, monkeypatch):
    """With rate 3 the model explodes: its loss is finite, and its gap the largest."""
    (tmp_path / "exploding.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    words = ["task.name=exploding:Own", "task.kind=loss", "availability.name=always", "rounds=3", "local.steps=9"]
    found = package.compare(load(None, words), ["fedavg"], seeds=[3], tune=[3.0, 0.01, 0.5], tune_by="max:gap", jobs=1)
    tuning = {rate: history.last["server_gap"] for (_, rate, seed), history in found.histories.items() if seed == 1}
    assert np.isfinite(tuning[3.0])
    assert tuning[3.0] > 1e6 > tuning[0.5]
    assert set(found.chosen.values()) == {0.5}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_same_command_continues_a_stopped_comparison(tmp_path, how):
    words = [
        "task.clients=10",
        "task.alpha=1",
        "rounds=400",
        "evaluate.every=400",
        "--algorithms",
        "fedavg,mifa,fedswe:k=2",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    command = ["compare", *words, "--seeds", "3,4", "--jobs", "2"]
    running = process(*command, **pipes)
    out = tmp_path / "runs" / "001-compare"
    assert len(workers_of(running, out)) == 2
    wait_for(lambda: list(out.glob("runs/*/checkpoint.safetensors")))
    running.send_signal(how)
    text, err = running.communicate(timeout=300)
    assert running.returncode == (130 if how == signal.SIGTERM else -how)
    assert text.endswith("stopped   the same command continues in runs/001-compare\n") == (how == signal.SIGTERM)
    assert not (out / "compare.csv").exists()
    other = process("compare", *QUICK, "--algorithms", "fedavg", "--seeds", "3", "--jobs", "1", **pipes)
    assert "results   runs/002-compare/" in other.communicate(timeout=300)[0]
    finished = process(*command, **pipes)
    text, err = finished.communicate(timeout=300)
    assert (finished.returncode, err, text.splitlines()[0]) == (0, "", "continues runs/001-compare")
    assert "fedswe:k=2" in text
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["001-compare", "002-compare"]
    rows = rows_of((out / "compare.csv").read_text())
    assert len({(row["algorithm"], row["seed"]) for row in rows}) == 3 * 2
    assert {row["round"] for row in rows} == {"0", "400"}


def test_a_rate_at_the_edge_of_the_grid_is_said():
    experiment = load(None, ["rounds=3", "task.clients=5", "task.alpha=1"])
    with pytest.warns(FedsweWarning, match=r"the largest \(0.002\) for fedavg: add larger rates"):
        found = package.compare(experiment, ["fedavg"], seeds=[1], tune=[0.001, 0.002], jobs=1)
    assert set(found.chosen.values()) == {0.002}
    assert {seed for _, _, seed in found.histories} == {0, 1}  # rates are never chosen on a seed that is reported
