"""A transport written by a user, in one file outside the package: the one that docs/deployment.md shows."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedswe.deploy import Rounds, ServerEndpoint, ledger, verify
from fedswe.experiment.experiment import Evaluate
from tests.deploy.parts import quadratic

DOCS = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "queues.py").write_text(re.search(r"```python\n(# queues\.py\n.*?)```", DOCS, re.DOTALL).group(1))
    return tmp_path


@pytest.mark.slow
def test_the_documented_file_runs_a_deployment(folder):
    deployment = quadratic("fedswe", rounds=3, m=2)
    deployment.save(folder)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "queues.py"], cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    result = verify(folder / "run")
    assert (result.rounds, result.exact) == (3, True)
    assert (folder / "run" / "history.csv").is_file()


@pytest.mark.slow
def test_a_killed_client_is_absent_and_returns(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    queues = importlib.import_module("queues")
    deployment = quadratic("fedswe", rounds=4, m=2, simulate_absence=False, evaluate=Evaluate(every=1))
    with ServerEndpoint.open(folder / "run", deployment) as server:
        transport = queues.Queues(deployment, 2, folder / "clients")
        rounds = Rounds(server, transport)
        rounds.step()
        transport.processes[1].kill()
        transport.processes[1].join()
        rounds.step()
        transport.start(1)
        rounds.step()
        rounds.step()
        for process in transport.processes.values():
            process.kill()
            process.join()
    merged = [entry.merged for entry in ledger.read(folder / "run" / ledger.FILE).entries]
    assert merged == [{0: -1, 1: -1}, {0: 0}, {0: 1, 1: 0}, {0: 2, 1: 2}]
    assert verify(folder / "run").exact


def test_the_documented_test_of_an_app_runs(folder, monkeypatch, capsys):
    """On a small deployment in place of the documented app."""
    monkeypatch.chdir(folder)
    Path("trial").mkdir()
    quadratic("fedswe", rounds=9).save(Path("trial"))
    exec(re.search(r"```python\n(from fedswe\.deploy import Deployment, run_in_memory.*?)```", DOCS, re.DOTALL)[1], {})
    assert capsys.readouterr().out.endswith("True\n")
    assert len(ledger.read(Path("trial/tested") / ledger.FILE).entries) == 5
