"""fedswe deploy status and verify as JSON."""

import json

from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic


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
