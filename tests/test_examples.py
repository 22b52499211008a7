"""The examples, as a user runs them, and the lines of docs/extending.md."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import fedswe

ROOT = Path(__file__).parents[1]
SCRIPTS = {  # docs/extending.md runs own_data.py
    "own_model": ("fedswe:k=10,client_mean", "torch.Size([1, 10])"),
    "regression": ("client_mean_test_r2", "client_mean_train_mae_rarely"),
    "finetune": ("330 numbers per report of 2410",),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_and_prints(name, tmp_path):
    script = tmp_path / f"{name}.py"
    script.write_text((ROOT / "examples" / f"{name}.py").read_text())
    done = subprocess.run([sys.executable, script, "results"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for words in SCRIPTS[name]:
        assert words in done.stdout


def test_the_speed_up_of_an_example_is_one():
    """More clients and more steps need fewer rounds; the whole script takes minutes."""
    needed = runpy.run_path(str(ROOT / "examples" / "linear_speedup.py"))["rounds_needed"]
    few, many = needed(2, 2, 0.32, rounds=20), needed(16, 8, 0.64, rounds=60)
    assert few == np.inf
    assert 5 <= many <= 60


def test_examples_are_short():
    lines = {file.name: len(file.read_text().splitlines()) for file in (ROOT / "examples").glob("*.py")}
    assert all(count <= 40 for name, count in lines.items() if name not in ("single_file.py", "speeches.py"))


def test_a_function_of_an_example_is_a_task_of_the_command_line(tmp_path, monkeypatch, capsys):
    script = tmp_path / "own_data.py"
    script.write_text((ROOT / "examples" / "own_data.py").read_text())
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 4, 60), rng.standard_normal((60, 6)), rng.integers(0, 2, 60)])
    np.savetxt(tmp_path / "patients.csv", rows, delimiter=",", header="x", comments="")
    words = ["task.name=./own_data.py:hospitals", "task.hidden=4", "rounds=2", "--out", "run"]
    done = subprocess.run([sys.executable, "-m", "fedswe", "run", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "hidden = 4" in (tmp_path / "run" / "config.toml").read_text()
    monkeypatch.chdir(tmp_path)
    assert "hidden" in fedswe(monkeypatch, capsys, "show", "./own_data.py:hospitals")[1]
