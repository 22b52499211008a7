"""Parts of a user's own, in a directory with nothing but their files, used as a user does: through commands."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import fedswe as in_this_process
from tests.cli.command import wait_for

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCES = Path(__file__).parents[1] / "src"

# One part of each kind, from examples/, and a word that `fedswe show` prints of it.
PARTS = {
    "./own_algorithm.py:Damped": "damping",
    "./own_availability.py:Week": "weekend",
    "./own_task.py:slopes": "noise",
    "./own_transform.py:Sign": "threshold",
    "./own_output.py:RunningMean": "average",
    "./own_column.py:Norms": "norm",
    "./own_tracker.py:Lines": "file",
}
ALL = [
    "algorithm.name=./own_algorithm.py:Damped",
    "algorithm.damping=0.1",
    "availability.name=./own_availability.py:Week",
    "availability.p=0.7",
    "task.name=./own_task.py:slopes",
    "local.chain=clip:5,./own_transform.py:Sign:0.01",
    "evaluate.model=server,./own_output.py:RunningMean",
    "record.columns=./own_column.py:Norms",
    "evaluate.every=5",
]


@pytest.fixture
def folder(tmp_path):
    for file in EXAMPLES.glob("own_*.py"):
        shutil.copy(file, tmp_path)
    return tmp_path


def start(folder, *words, path=(), **options):
    """The command as it is installed: the current directory is not on Python's path."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, [SOURCES, *path]))}
    command = [sys.executable, "-P", "-m", "fedswe", *map(str, words)]
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, **options)


def fedswe(folder, *words, path=()):
    """Exit code, stdout and stderr of a command."""
    process = start(folder, *words, path=path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def without_seconds(history):
    return [line.rpartition(",")[0] for line in history.read_text().splitlines()]


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", PARTS)
def test_show(name, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    code, out, err = in_this_process(monkeypatch, capsys, "show", name)
    assert (code, err) == (0, "")
    assert name in out
    assert PARTS[name] in out


def test_run_stop_and_resume(folder, monkeypatch, capsys):
    """All kinds in one run; killed and resumed, it ends like one that was not, and a changed file is refused."""
    words = ["run", *ALL, "rounds=60", "record.checkpoint=1"]
    assert fedswe(folder, *words, "--out", "whole")[::2] == (0, "")
    whole = folder / "whole"
    used = [name for name in PARTS if "tracker" not in name]  # what results depend on
    files = {name.partition(":")[0] for name in used}
    assert json.loads((whole / "run.json").read_text())["sources"] == {f: digest(folder / f) for f in sorted(files)}
    assert all(f'"{name}"' in (whole / "config.toml").read_text() for name in used)
    header = without_seconds(whole / "history.csv")[0]
    assert "norm_of_server" in header
    assert "RunningMean_test_loss" in header

    stopped = start(folder, *words, "--out", "stopped", stdout=subprocess.DEVNULL)
    wait_for(lambda: (folder / "stopped" / "checkpoint.safetensors").exists() or stopped.poll() is not None)
    stopped.kill()
    stopped.wait()
    shutil.copytree(folder / "stopped", folder / "other")

    own = folder / "own_algorithm.py"
    text = own.read_text()
    own.write_text(text + "# changed\n")
    monkeypatch.chdir(folder)
    code, _, err = in_this_process(monkeypatch, capsys, "run", "--resume", "other")
    assert code == 2
    assert err.startswith("error: ./own_algorithm.py has changed since the run in other was started: restore it, or ")
    own.write_text(text)
    assert fedswe(folder, "run", "--resume", "stopped")[::2] == (0, "")
    assert without_seconds(folder / "stopped" / "history.csv") == without_seconds(whole / "history.csv")
    # The configuration in the directory is enough to run it again.
    assert in_this_process(monkeypatch, capsys, "run", "whole/config.toml", "--out", "again")[::2] == (0, "")
    assert without_seconds(folder / "again" / "history.csv") == without_seconds(whole / "history.csv")


def test_compare_over_two_processes(folder, monkeypatch, capsys):
    labels = "fedavg,./own_algorithm.py:Damped:damping=0.1,./own_algorithm.py:Damped:damping=0.2"
    words = ["compare", *ALL[2:], "rounds=10", "--algorithms", labels, "--seeds", "3,4", "--jobs", 2, "--out", "out"]
    code, out, err = fedswe(folder, *words)
    assert (code, err) == (0, "")
    assert all(label in out for label in labels.split(","))
    configurations = [file.read_text() for file in folder.glob("out/**/config.toml")]
    assert len(configurations) == 6
    assert sum("./own_algorithm.py:Damped" in text for text in configurations) == 4
    assert all(
        "./own_task.py" in json.loads(file.read_text())["sources"] for file in folder.glob("out/runs/*/run.json")
    )
    # Given again, the command does not mix results of two versions of a file.
    (folder / "own_task.py").write_text((folder / "own_task.py").read_text() + "# changed\n")
    monkeypatch.chdir(folder)
    code, _, err = in_this_process(monkeypatch, capsys, *map(str, words))
    assert code == 2
    assert err.startswith("error: ./own_task.py has changed since the run in out/runs/")
    assert err.count("\n") == 1


PACKAGE = """
from dataclasses import dataclass
from typing import ClassVar
from fedswe.algorithms import FedAvg

@dataclass(frozen=True)
class Published(FedAvg):
    rate: float = 1.0  # a parameter
    title: ClassVar[str] = "from an installed package"
"""


@pytest.fixture
def site(tmp_path):
    """A directory with an installed package, as pip would leave it."""
    site = tmp_path / "site"
    (site / "published-1.0.dist-info").mkdir(parents=True)
    (site / "published.py").write_text(PACKAGE)
    (site / "published-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: published\nVersion: 1.0\n")
    (site / "published-1.0.dist-info" / "entry_points.txt").write_text(
        "[fedswe.algorithms]\nours = published:Published\nbroken = published:Missing\n"
    )
    return site


def test_a_published_package(folder, site):
    code, out, err = fedswe(folder, "list", "algorithm", path=[site])
    assert (code, err) == (0, "")
    assert "from an installed package" in out
    assert "cannot be used" in out  # the broken one
    words = ["algorithm.name=ours", "algorithm.rate=2", "task.clients=5", "task.alpha=5", "rounds=2"]
    assert fedswe(folder, "run", *words, "--out", "out", path=[site])[::2] == (0, "")
    assert 'name = "ours"' in (folder / "out" / "config.toml").read_text()
    sources = json.loads((folder / "out" / "run.json").read_text())["sources"]
    assert sources == {"published": digest(site / "published.py")}
    code, _, err = fedswe(folder, "run", "algorithm.name=broken", "--out", "none", path=[site])
    message = "error: algorithm broken: published has no class Missing: known are FedAvg, Published\n"
    assert (code, err) == (2, message)
    assert not (folder / "none").exists()
