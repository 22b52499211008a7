"""Trackers are no part of a run's identity, and change no bit of its results."""

import tomllib
from dataclasses import replace

import pytest

from fedswe import resume, run
from fedswe.errors import TrackerWarning
from fedswe.experiment.configuration import dump, load, load_text, settings
from fedswe.experiment.runner import StopRun
from fedswe.grid.runner import Executor, run_cells
from fedswe.grid.store import ResultStore, RunStore
from tests.cli.command import fedswe
from tests.grid.grids import small_cells

HERE = "tests.tracking.trackers"
WORDS = ["task.clients=10", "rounds=12", "evaluate.every=3", "record.checkpoint=5"]


def rows(path):
    """A history without the seconds of the computer."""
    return [line.rsplit(",", 1)[0] for line in (path / "history.csv").read_text().splitlines()]


def test_models_have_the_same_bits(tmp_path):
    for name, track in (("plain", []), ("tracked", ["tensorboard", f"{HERE}:Lines"])):
        run(replace(load(None, WORDS), track=track), tmp_path / name)
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "tracked")]
    assert models[0] == models[1]
    assert rows(tmp_path / "plain") == rows(tmp_path / "tracked")


def test_configurations():
    plain = load(None, WORDS)
    tracked = replace(plain, track=["mlflow"])
    assert tracked == plain
    assert settings(tracked) == settings(plain)
    assert "track" not in dump(plain)
    assert load_text(dump(tracked), "x").track == ["mlflow"]


def stop_at(rounds):
    def watch(t, row):
        if t == rounds:
            raise StopRun

    return watch


def test_a_run_is_resumed_with_other_trackers(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    with pytest.raises(StopRun):
        run(load(None, WORDS), out, stop_at(7))
    assert fedswe(monkeypatch, capsys, "run", "--resume", out, f"track={HERE}:Lines", "-q")[0] == 0
    assert [line.split()[0] for line in (out / "tracked.txt").read_text().splitlines()] == [
        "start", "0", "3", "6", "9", "12", "finished",
    ]  # fmt: skip


def test_a_resumed_run_goes_on_with_its_trackers(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(StopRun):
        run(load(None, [*WORDS, f"track={HERE}:Lines"]), out, stop_at(7))
    resume(out)
    assert [line.split()[0] for line in (out / "tracked.txt").read_text().splitlines()] == [
        "start", "0", "3", "6", "stopped", "start", "0", "3", "6", "9", "12", "finished",
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "jobs"), [(RunStore, 1), (ResultStore, 2)])
def test_every_cell_of_a_grid_is_a_run(tmp_path, kind, jobs):
    """Also in worker processes, which pass on that a tracker has failed: one line for all runs."""
    track = [f"{HERE}:Lines", f"{HERE}:Failing"]
    cells = [replace(cell, experiment=replace(cell.experiment, track=track)) for cell in small_cells(4, 10)]
    store = kind(tmp_path)
    with Executor(jobs=jobs) as executor, pytest.warns(TrackerWarning) as warned:
        run_cells(cells, store, executor)
    (text,) = [str(warning.message) for warning in warned]
    assert f"{HERE}:Failing failed (" in text
    for cell in cells:
        lines = (store.tracked(cell) / "tracked.txt").read_text().splitlines()
        assert lines[0] == f"start {cell.experiment.rounds}"
        assert lines[-1] == "finished"
        assert lines[-2].split()[0] == str(cell.experiment.rounds)
        for file in tmp_path.glob(f"cells/{cell.name}.toml"):
            assert "track" not in tomllib.loads(file.read_text())["config"]
        assert store.finished(replace(cell, experiment=replace(cell.experiment, track=[])))
