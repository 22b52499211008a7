"""An operator and a trial on real processes: commands of another process pause, evict and stop it; a client joins."""

import re
import tomllib

import pytest
import tomli_w

from fedswe.deploy import ledger
from tests.cli.command import fedswe
from tests.deploy.federation import Federation

pytestmark = pytest.mark.flower

TASK = """
from dataclasses import dataclass

import torch
from torch import nn

from fedswe.tasks.custom import CustomTask


@dataclass(frozen=True)
class Sites(CustomTask):
    def network(self):
        return nn.Linear(3, 2)

    def load(self, client):
        inputs = torch.randn(20, 3, generator=torch.Generator().manual_seed(client))
        return inputs, (inputs[:, 0] > 0).long()
"""


def test_commands_to_a_trial(tmp_path, monkeypatch, capsys):
    with Federation(tmp_path, 2, rounds=40, deploy={"min_clients": 1}) as trial:
        (trial.app / "federation" / "task.py").write_text(TASK)
        set_clients(trial, 2)
        trial.find_task(monkeypatch)

        def contents():
            return ledger.read(trial.run / ledger.FILE)

        def command(*words):
            code, text, error = fedswe(monkeypatch, capsys, "deploy", words[0], trial.run, *words[1:])
            assert (code, error) == (0, "")
            return text

        trial.up()
        trial.until_round(1)
        command("evict", 1)
        trial.until(lambda: contents().evicted == {1}, "eviction")
        trial.until_round(len(contents().entries) + 2)
        assert contents().entries[-1].merged.keys() == {0}
        command("admit", 1)
        command("pause")
        trial.until(lambda: contents().paused, "pause")
        assert re.search(r"server +running, paused", command("status"))
        assert "client 2 requested" in command("join", "--app", trial.app)
        command("resume")
        command("stop")
        assert trial.end() == 0
        assert "stopped   by an operator" in trial.said()

        set_clients(trial, 3)
        before = len(contents().entries)
        trial.up()
        trial.until(lambda: any(2 in entry.merged for entry in contents().entries), "a merge of the new client")
        assert [(c.action, c.t, c.client) for c in contents().changes][-1] == ("join", before, 2)
        command("stop")
        assert trial.end() == 0


def set_clients(trial, clients):
    path = trial.app / "deployment.toml"
    table = tomllib.loads(path.read_text())
    table["task"] = {"name": "federation.task:Sites", "clients": clients}
    path.write_text(tomli_w.dumps(table))
