"""fedswe deploy status and verify as JSON."""

import json

from fedswe.deploy import ledger
from fedswe.deploy.monitor import Activity, Monitor
from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic


def test_status_counts_rounds_from_1_as_text_and_as_json(tmp_path, monkeypatch, capsys):
    net = Network(tmp_path, quadratic("fedswe", rounds=5, m=2, p=1.0))
    net.round()
    net.round([0])
    run = tmp_path / "server"
    Monitor(run, net.deployment, ledger.read(run / ledger.FILE)).now(Activity("gathering reports", 2, (0,), 1))
    text = fedswe(monkeypatch, capsys, "deploy", "status", run)[1]
    table = json.loads(fedswe(monkeypatch, capsys, "deploy", "status", run, "--json")[1])
    assert [f"round {entry['round']}/5" in text for entry in table["recent_rounds"]] == [True, True]
    assert [entry["round"] for entry in table["recent_rounds"]] == [1, 2]
    assert [client["last_merge"] for client in table["client_states"]] == [2, 1]
    assert "last merged in round 2" in text
    assert (table["activity"]["round"], "gathering reports, round 3," in text) == (3, True)


def test_status_and_verify_as_json(tmp_path, monkeypatch, capsys):
    net = Network(tmp_path, quadratic("fedswe", rounds=3, m=2))
    net.finish()
    net.server.release()
    run = tmp_path / "server"
    status = json.loads(fedswe(monkeypatch, capsys, "deploy", "status", run, "--json")[1])
    assert (status["rounds"], status["committed"], status["clients"]) == (3, 3, 2)
    assert all(count > 0 for count in status["bytes"].values())
    assert status["rejected_of_unknown_clients"] == {}
    assert [client["rejected"] for client in status["client_states"]] == [{}, {}]
    code, text, _ = fedswe(monkeypatch, capsys, "deploy", "verify", run, "--json")
    verified = json.loads(text)
    assert (code, verified["passed"], verified["exact"], verified["rounds"]) == (0, True, True, 3)
