"""fedswe run and compare do what the documentation says."""

import csv
import json
import re
import subprocess

import numpy as np
import pytest
import safetensors.numpy

import fedswe as package
from fedswe.cli.run import headline
from fedswe.experiment.configuration import load
from fedswe.results.history import History
from tests.cli.command import fedswe, process

QUICK = ["task.clients=10", "task.alpha=1", "rounds=6", "evaluate.every=4", "local.steps=2"]


def test_run_leaves_a_directory(tmp_path, monkeypatch, capsys):
    out = tmp_path / "a"
    code, text, _ = fedswe(monkeypatch, capsys, "run", *QUICK, "record.trajectory=true", "--out", out)
    assert code == 0
    assert f"results   {out}" in text
    assert sorted(p.name for p in out.glob("[!.]*")) == [
        "config.toml", "history.csv", "model.safetensors", "reported.txt", "run.json", "trajectory.csv",
    ]  # fmt: skip
    history = History.from_csv((out / "history.csv").read_text())
    assert history["round"].tolist() == [0, 4, 6]
    for column in ("available", "echo_mean", "echo_max", "server_train_loss", "client_mean_test_accuracy", "seconds"):
        assert column in history.columns
    models = safetensors.numpy.load_file(out / "model.safetensors")
    shapes = {name: list(value.shape) for name, value in models.items()}
    assert shapes == {
        f"{m}.1.{n}": s for m in ("server", "client_mean") for n, s in (("weight", [10, 64]), ("bias", [10]))
    }
    rows = list(csv.reader((out / "trajectory.csv").read_text().splitlines()))
    assert rows[0] == ["round"] + [f"x{j}" for j in range(650)]
    assert [row[0] for row in rows[1:]] == [str(t) for t in range(7)]
    last = np.array(rows[-1][1:], dtype=np.float32)
    np.testing.assert_array_equal(last, np.concatenate([models[f"server.1.{n}"].ravel() for n in ("weight", "bias")]))
    notes = json.loads((out / "run.json").read_text())
    assert {"commit", "packages", "machine", "python", "started"} <= notes.keys()
    # the resolved configuration runs again, and Python gives the same history
    again = package.run(load(out / "config.toml")).history
    for column in again.columns:
        if column != "seconds":
            np.testing.assert_array_equal(again[column], history[column])


def test_progress_is_plain_lines_with_the_latest_score(tmp_path, monkeypatch, capsys):
    text = fedswe(monkeypatch, capsys, "run", *QUICK, "--out", tmp_path / "a")[1]
    assert re.search(r"^rounds 6/6  0:00:00 left  server \d+\.\d %  client mean \d+\.\d %$", text, re.MULTILINE)
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"round": 1, "server_test_accuracy": 0.5, "client_mean_test_accuracy": 0.25, "server_train_loss": 1.0},
         "server 50.0 %  client mean 25.0 %"),
        ({"round": 1, "server_train_loss": 0.25, "server_test_loss": 2.0}, "server loss 0.25"),
        ({"round": 1, "server_test_loss": 2.0, "seconds": 3.0}, "server test loss 2"),
        ({"round": 1, "available": 4, "server_error": 7.0, "seconds": 3.0}, "server_error 7"),
    ],
)  # fmt: skip
def test_the_headline_is_the_most_important_score_there_is(row, expected):
    assert headline(row) == expected


def test_default_directory_is_numbered(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert fedswe(monkeypatch, capsys, "run", *QUICK)[0] == 0
    assert [p.name for p in sorted((tmp_path / "runs").iterdir())] == [
        "001-fedswe-sine-digits",
        "002-fedswe-sine-digits",
    ]


def test_commands_that_start_together_get_directories_of_their_own(tmp_path):
    runs = [process("run", *QUICK, f"seed={s}", cwd=tmp_path, stdout=subprocess.DEVNULL) for s in (1, 2, 3)]
    assert [run.wait(300) for run in runs] == [0, 0, 0]
    configs = [load(p / "config.toml") for p in sorted((tmp_path / "runs").iterdir())]
    assert sorted(config.seed for config in configs) == [1, 2, 3]


def test_run_from_a_file_with_a_mask(tmp_path, monkeypatch, capsys):
    mask = np.random.default_rng(0).random((30, 3)) < 0.5
    np.savetxt(tmp_path / "mask.csv", mask, fmt="%d", delimiter=",")
    np.savetxt(tmp_path / "prob.csv", np.full((1, 3), 0.5), delimiter=",")
    np.savetxt(tmp_path / "centers.csv", [[0, 1], [2, 3], [4, 5]], delimiter=",")
    (tmp_path / "exp.toml").write_text(
        f"""
        rounds = 30
        [algorithm]
        name = "fedavg_known"
        [availability]
        name = "mask"
        file = "{tmp_path}/mask.csv"
        prob_file = "{tmp_path}/prob.csv"
        [task]
        name = "quadratic"
        centers_file = "{tmp_path}/centers.csv"
        """
    )
    assert fedswe(monkeypatch, capsys, "run", tmp_path / "exp.toml", "--out", tmp_path / "a")[0] == 0
    history = History.from_csv((tmp_path / "a" / "history.csv").read_text())
    assert history.last["available"] == mask[-1].sum()
    assert history["server_distance"][-1] < history["server_distance"][0]


def test_compare(tmp_path, monkeypatch, capsys):
    out = tmp_path / "c"
    words = ["--algorithms", "fedswe:k=5,fedavg,f3ast", "--seeds", "3,4", "--tune", "0.1,1", "--jobs", 1, "--out", out]
    code, text, _ = fedswe(monkeypatch, capsys, "compare", *QUICK, *words)
    assert code == 0
    assert all(name in text for name in ("fedswe:k=5", "fedavg", "f3ast", "client mean", "seeds 3, 4"))
    rows = list(csv.DictReader((out / "compare_summary.csv").read_text().splitlines()))
    assert [(r["algorithm"], r["model"]) for r in rows] == [
        (a, m) for a in ("fedswe:k=5", "fedavg", "f3ast") for m in ("server", "client_mean")
    ]
    for figure in ("compare", "compare_final"):
        assert (out / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / f"{figure}.svg").read_text().startswith("<?xml")
    # the numbers are those of the single runs: mean and std over seeds of the last 50 rounds
    row = rows[2]
    runs = [
        History.from_csv((out / f"runs/fedavg-lr{row['local_lr']}-seed{s}/history.csv").read_text()) for s in (3, 4)
    ]
    values = [h.tail_mean("server_test_accuracy", 50) for h in runs]
    assert float(row["test_accuracy_mean"]) == pytest.approx(np.mean(values), rel=1e-5)
    assert float(row["test_accuracy_std"]) == pytest.approx(np.std(values, ddof=1), rel=1e-4, abs=1e-6)
    # the rate is the one with the lower training loss on the tuning seed
    tried = {r: History.from_csv((out / f"runs/fedavg-lr{r}-seed1/history.csv").read_text()) for r in ("0.1", "1")}
    assert row["local_lr"] == min(tried, key=lambda r: tried[r].tail_mean("server_train_loss", 50))
    # all saw the same clients
    for seed in (3, 4):
        seen = [
            History.from_csv(p.read_text())["available"].tolist() for p in out.glob(f"runs/*-seed{seed}/history.csv")
        ]
        assert len(seen) >= 3
        assert all(s == seen[0] for s in seen)


def test_a_rate_that_diverges_is_not_chosen(tmp_path, monkeypatch, capsys):
    words = ["compare", "task.name=quadratic", "availability.p=0.5", "rounds=30", "evaluate.every=5", "--seeds", "3",
             "--algorithms", "fedavg", "--jobs", 1]  # fmt: skip
    code, text, _ = fedswe(monkeypatch, capsys, *words, "--tune", "1e30,100,0.1", "--out", tmp_path / "a")
    assert (code, "diverged" in text) == (0, False)
    assert "last 30 of 30 rounds" in text
    rows = list(csv.DictReader((tmp_path / "a" / "compare_summary.csv").read_text().splitlines()))
    assert [row["local_lr"] for row in rows] == ["0.1", "0.1"]
    # where all of them do, the table says so
    code, text, _ = fedswe(monkeypatch, capsys, *words, "--tune", "1e30,100", "--out", tmp_path / "b")
    assert (code, text.count("diverged")) == (0, 2)


def test_one_seed_has_no_spread(tmp_path, monkeypatch, capsys):
    words = ["--algorithms", "fedswe, fedavg", "--seeds", "3", "--jobs", 1, "--out", tmp_path / "a"]
    code, text, _ = fedswe(monkeypatch, capsys, "compare", *QUICK, *words)
    assert (code, "±" in text) == (0, False)
    assert "mean over seed 3 of the last 6 of 6 rounds" in text
    rows = list(csv.DictReader((tmp_path / "a" / "compare_summary.csv").read_text().splitlines()))
    assert {row["test_accuracy_std"] for row in rows} == {"nan"}


def test_a_wide_table_names_every_algorithm_in_full(tmp_path, monkeypatch, capsys):
    """With four models it does not fit in 80 columns; fedswe:k=1… could be any of the two."""
    chosen = "fedswe:k=10:clip=0.5,fedswe:k=100:progress_over=active"
    words = ["--algorithms", chosen, "--seeds", "3,4,5", "--tune", "0.1,1", "--jobs", 1, "--out", tmp_path / "a"]
    models = "evaluate.model=['server','client_mean','augmented_mean','ema']"
    code, text, _ = fedswe(monkeypatch, capsys, "compare", *QUICK, models, *words)
    assert code == 0
    for label in chosen.split(","):
        (line,) = [line for line in text.splitlines() if line.startswith(f"│ {label} ")]
        assert re.fullmatch(r"│ \S+ +(│ +(\* )?\d+\.\d ± \d+\.\d │ +(0.1|1) ){4}│", line)


def test_a_table_in_an_ascii_log(tmp_path):
    words = ["compare", *QUICK, "--algorithms", "fedavg", "--seeds", "3,4,5", "--jobs", 1, "--out", tmp_path / "a"]
    run = process(*words, stdout=subprocess.PIPE, text=True, encoding_of_output="ascii")
    assert " ? " in run.communicate()[0]
    assert run.returncode == 0


def test_compare_with_processes_equals_compare_without(tmp_path, monkeypatch, capsys):
    texts = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        words = ["--algorithms", "fedavg", "--seeds", "3,4", "--jobs", jobs, "--out", out]
        assert fedswe(monkeypatch, capsys, "compare", *QUICK, *words)[0] == 0
        texts.append((out / "compare.csv").read_text())
    assert texts[0] == texts[1]


@pytest.mark.filterwarnings("always::fedswe.errors.FedsweWarning")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["local.lr=100"], r"the model diverged \(server_train_loss is \w+\): lower local.lr, or set local.clip$"),
        (["local.lr=5", "rounds=2"], r"the model diverged \(server_train_loss rose from \S+ to \S+\): lower local.lr"),
        (["algorithm.k=1e40"], r"or set local.clip, or change algorithm.k = 1e\+40$"),
    ],
)
def test_a_run_that_diverged_says_so(tmp_path, monkeypatch, capsys, words, said):
    run = ["run", "task.name=quadratic", "availability.p=0.5", "rounds=30"]
    assert fedswe(monkeypatch, capsys, *run, "--out", tmp_path / "a")[2] == ""
    code, _, err = fedswe(monkeypatch, capsys, *run, *words, "-q", "--out", tmp_path / "b")
    assert (code, err.count("\n")) == (0, 1)
    assert re.search(f"^warning: .*{said}", err)


def test_a_task_without_scores_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom fedswe.tasks import Quadratic\n\n\n@dataclass(frozen=True)\n"
        "class Mute(Quadratic):\n    def build(self, setting):\n        problem = super().build(setting)\n"
        "        problem.evaluate = lambda x: {}\n        return problem\n"
    )
    words = ["task.name=./mine.py:Mute", "task.centers=[[0.0],[1.0]]", "availability.p=0.5", "rounds=2"]
    code, text, _ = fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "a")
    assert (code, "final     this task has no scores" in text) == (0, True)
