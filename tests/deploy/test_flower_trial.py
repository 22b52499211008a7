"""fedswe deploy as a user meets it, with real Flower processes on loopback."""

from dataclasses import replace

import numpy as np
import psutil
import pytest
import safetensors.torch

from fedswe.availability import Mask
from fedswe.deploy.audit.verify import verify
from fedswe.deploy.deployment import FILE, Deployment
from fedswe.experiment.experiment import assemble
from fedswe.results.model_file import Models
from tests.cli.command import fedswe
from tests.deploy.federation import ABSENCE, Federation

pytestmark = pytest.mark.flower


def test_init_up_interrupt_resume_verify(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words):
        code, out, err = fedswe(monkeypatch, capsys, "deploy", *words)
        return code, out + err

    deploy = {"simulate_absence": True, "min_clients": 2, "delivery": "eager"}
    folder = tmp_path / 'the "clinic\'s" app 🌼'
    with Federation(folder, 2, rounds=3, availability=ABSENCE, deploy=deploy) as fed:
        fed.up()
        fed.until_round(1)
        for process in fed.alive():
            for connection in process.net_connections(kind="inet"):
                if connection.status == psutil.CONN_LISTEN:
                    assert connection.laddr.ip == "127.0.0.1"
        fed.interrupt()
        assert fed.end() == 130
        assert fed.alive() == []
        committed = len(fed.entries())
        assert committed < 3

        fed.up()
        assert fed.end() == 0
        assert fed.alive() == []
        assert f"resuming  at round {committed} of 3" in fed.said()
        assert [entry.t for entry in fed.entries()] == [0, 1, 2]
        assert "token" not in (fed.run / "run.json").read_text()  # Flower's, which is on the server's command line
        assert list(fed.home.iterdir()) == []  # nothing is left in the user's home

        fed.assert_equals_simulation(monkeypatch)
        assert verify(fed.run).exact
        code, said = command("verify", fed.run)
        assert (code, "passed: every model follows from the reports" in said) == (0, True)

        code, said = command("trace", fed.run, "--out", tmp_path / "mask.csv")
        assert code == 0
        deployment = Deployment.load(fed.run / FILE)
        lived = replace(deployment.experiment, availability=Mask(file=str(tmp_path / "mask.csv")))
        engine = assemble(lived)
        assert [engine.step().reported for _ in range(3)] == [len(entry.merged) for entry in fed.entries()]

        code, said = command("export", fed.run, "--out", tmp_path / "model.safetensors")
        assert (code, "client mean after 3 rounds" in said) == (0, True)
        tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
        deployment.problem().network.module.load_state_dict(tensors)  # the names are the user's own
        final = Models.read(fed.run / "model.safetensors").vectors
        flat = np.concatenate([tensors[name].numpy().ravel() for name in ("1.weight", "1.bias")])
        np.testing.assert_array_equal(flat, final["client_mean"])

        code, said = command("status", fed.run)
        assert (code, "rounds    3 of 3 committed" in said) == (0, True)
        fed.up()
        assert fed.end() == 2
        assert "is finished" in fed.said()
