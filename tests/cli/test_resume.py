"""A run killed at any moment and resumed ends with the same bits as one that was left alone."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from fedswe import resume, run
from fedswe.experiment.configuration import load
from fedswe.results import files
from fedswe.results.history import History
from tests.cli.command import fedswe, process, wait_for

WORDS = [
    "task.clients=20", "task.alpha=0.5", "rounds=120", "evaluate.every=7", "record.checkpoint=5",
    "record.trajectory=true", "evaluate.model=['server','client_mean','ema']",
]  # fmt: skip


def outcome(path):
    """Everything a run leaves that should not depend on its history of interruptions."""
    history = [line.rsplit(",", 1)[0] for line in (path / "history.csv").read_text().splitlines()]  # less seconds
    names = sorted(p.name for p in path.iterdir())
    return names, history, (path / "model.safetensors").read_bytes(), (path / "trajectory.csv").read_bytes()


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    run(load(None, WORDS), out)
    return outcome(out)


def test_killed_processes(tmp_path, untouched):
    """Real processes, SIGKILL: right after the start, then at growing delays after each new checkpoint."""
    out = tmp_path / "run"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    running = process("run", *WORDS, "--out", out, **quiet)
    wait_for(lambda: (out / "config.toml").exists())
    running.send_signal(signal.SIGKILL)
    running.communicate()
    checkpoint = out / "checkpoint.safetensors"
    for delay in (0.0, 0.013, 0.05):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        running = process("run", "--resume", out, **quiet)
        wait_for(lambda b=before: checkpoint.exists() and checkpoint.stat().st_mtime_ns > b)
        time.sleep(delay)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        assert not (out / "model.safetensors").exists()
    running = process("run", "--resume", out, **quiet)
    assert running.communicate()[1] == ""
    assert running.returncode == 0
    assert outcome(out) == untouched


@pytest.mark.parametrize("algorithm", ["mifa", "amplified_scaffold", "f3ast", "fedpbc"])
@pytest.mark.parametrize("engine", ["batched", "loop"])
def test_killed_at_a_file_operation(tmp_path, algorithm, engine):
    """A forked process kills itself at its n-th fsync or rename: before, between and after the steps of a save."""
    words = ["rounds=12", "evaluate.every=5", "record.checkpoint=4", "record.trajectory=true", f"engine={engine}",
             f"algorithm.name={algorithm}", "task.clients=6", "task.alpha=5", "local.steps=2"]  # fmt: skip
    whole = tmp_path / "whole"
    run(load(None, words), whole)
    for moment in (2, 5, 7, 9, 10, 13, 17, 18, 19):
        out = tmp_path / str(moment)
        child = os.fork()
        if child == 0:
            die_at(moment)
            run(load(None, words), out)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the run ended before the moment came"
        if (out / "config.toml").exists():
            resume(out)
        else:  # killed before there was anything to resume: the same command starts over
            run(load(None, words), out)
        assert outcome(out) == outcome(whole)


def die_at(moment):
    count = 0

    def counted(operation):
        def wrapped(*args):
            nonlocal count
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*args)

        return wrapped

    os.replace, os.fsync = counted(os.replace), counted(os.fsync)
    assert files.os is os


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda p: p.write_text(""), lambda p: p.write_text("round,x\n1,many\n")]
)
def test_a_finished_run_without_its_history(tmp_path, monkeypatch, capsys, damage):
    out = tmp_path / "run"
    run(load(None, [*WORDS, "rounds=2"]), out)
    damage(out / "history.csv")
    code, _, err = fedswe(monkeypatch, capsys, "run", "--resume", out)
    assert code == 2
    assert err == f"error: {out}/history.csv is missing or damaged: run the experiment again elsewhere\n"


def interrupted(out: Path, pause=0.0):
    """A run stopped between two checkpoints; `pause` makes two of its evaluations that far apart."""

    def watch(t, _):
        if t == 3:
            time.sleep(pause)
        if t == 23:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        run(load(None, WORDS), out, watch)
        os._exit(0)
    os.waitpid(child, 0)


def test_an_interrupted_run_shows_how_far_it_was_and_its_clock_goes_on(tmp_path):
    out = tmp_path / "run"
    interrupted(out, pause=1.2)
    early = History.from_csv((out / "history.csv").read_text())
    assert early["round"].tolist()[:2] == [0, 7]
    history = resume(out).history
    assert history["round"].tolist()[-2:] == [119, 120]
    assert history["seconds"][-1] > 1.2  # spent before the checkpoint that was resumed


@pytest.mark.parametrize("words", [["algorithm.k=7"], ["other.toml"], ["--out", "elsewhere"]])
def test_a_resumed_run_takes_no_other_configuration(tmp_path, monkeypatch, capsys, words):
    run(load(None, [*WORDS, "rounds=2"]), tmp_path / "run")
    code, _, err = fedswe(monkeypatch, capsys, "run", *words, "--resume", tmp_path / "run")
    assert (code, err.count("\n"), words[0] in err) == (2, 1, True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lr = 0.1", "lr = 0.2", "(local.lr = 0.1 there, 0.2 here)"),
        ("rounds = 120", "rounds = 200", "(rounds = 120 there, 200 here)"),
        ("clients = 20", "clients = 21", "(task.clients = 20 there, 21 here)"),
        ("columns = []", 'columns = ["consensus"]', "(record.columns = [] there, ['consensus'] here)"),
    ],
)
def test_a_configuration_edited_in_between_is_refused(tmp_path, monkeypatch, capsys, old, new, message):
    """The rounds before and after would be of two experiments."""
    out = tmp_path / "run"
    interrupted(out)
    text = (out / "config.toml").read_text()
    (out / "config.toml").write_text(text.replace(old, new))
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    code, _, err = fedswe(monkeypatch, capsys, "run", "--resume", out)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    (out / "config.toml").write_text("# a comment changes nothing\n" + text)
    assert fedswe(monkeypatch, capsys, "run", "--resume", out)[0] == 0


def test_a_finished_run_whose_rounds_are_not_those_of_its_configuration(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    run(load(None, [*WORDS, "rounds=8"]), out)
    config, history = out / "config.toml", out / "history.csv"
    config.write_text(config.read_text().replace("rounds = 8", "rounds = 9"))
    code, _, err = fedswe(monkeypatch, capsys, "run", "--resume", out)
    assert code == 2
    assert err.endswith("its history.csv ends with round 8 and its config.toml says 9: start a new run\n")
    config.write_text(config.read_text().replace("rounds = 9", "rounds = 8"))
    history.write_text("".join(history.read_text().splitlines(keepends=True)[:-1]))
    code, _, err = fedswe(monkeypatch, capsys, "run", "--resume", out)
    assert code == 2
    assert "its history.csv ends with round 7" in err


def test_a_run_that_still_goes_on_is_not_resumed(tmp_path, monkeypatch, capsys, untouched):
    out = tmp_path / "run"

    def watch(t, _):
        if t in (1, 23):  # before and after the first checkpoint
            code, _, err = fedswe(monkeypatch, capsys, "run", "--resume", out)
            assert (code, err) == (2, f"error: {out} is in use by another process: wait for it, or stop it\n")

    run(load(None, WORDS), out, watch)
    assert outcome(out) == untouched


def with_notes(out, **notes):
    """The checkpoint with other notes."""
    path = out / "checkpoint.safetensors"
    with safe_open(path, "np") as file:
        tensors, known = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    save_file(tensors, path, known | notes)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda out: (out / "checkpoint.safetensors").write_bytes(b"half"), "is damaged: delete it"),
        (lambda out: with_notes(out, round="[1]"), "is damaged: delete it"),
        (lambda out: with_notes(out, history_bytes="-5"), "is damaged: delete it"),
        (lambda out: save_file({"x": np.zeros(3)}, out / "checkpoint.safetensors"), "is damaged: delete it"),
        (lambda out: (out / "trajectory.csv").write_text("round"), "is shorter than its checkpoint"),
        (lambda out: (out / "history.csv").write_text("round,a\n0,1\n"), "is shorter than its checkpoint"),
        (lambda out: (out / "history.csv").unlink(), "history.csv is missing or damaged"),
        (lambda out: (out / "history.csv").write_text("round\nx\n" * 500), "history.csv is missing or damaged"),
        (lambda out: (out / "config.toml").unlink(), "nothing to resume"),
        (lambda out: (out / "config.toml").write_text("k ="), "is not valid TOML"),
        (lambda out: (out / "config.toml").write_bytes(b"\xff\xfe"), "config.toml is damaged"),
    ],
)
def test_damaged_directories(tmp_path, monkeypatch, capsys, damage, message):
    out = tmp_path / "run"
    interrupted(out)
    damage(out)
    code, _, err = fedswe(monkeypatch, capsys, "run", "--resume", out)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
