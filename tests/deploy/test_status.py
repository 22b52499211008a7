"""The state of a run and its alarms, read from the run directory."""

from dataclasses import replace

import pytest

from fedswe.deploy import Rounds, ServerEndpoint, ledger, status
from fedswe.deploy.ledger_lines import Evaluation
from fedswe.deploy.monitor import Activity, Monitor, read_activity
from fedswe.deploy.requests import Request, RequestFolder
from tests.deploy.parts import Network, quadratic


@pytest.fixture
def net(scratch):
    return Network(scratch, quadratic("fedswe", rounds=8, m=4, p=1.0, simulate_absence=False, deadline=10.0))


def alarms(net):
    return [(alarm.name, alarm.message) for alarm in status.read_status(net.server.directory).alarms]


def test_clients_of_a_run(net):
    net.round()
    net.round([0, 1])
    net.server.receive(1, b"nothing")
    net.server.change("evict", 0, "a reason")
    net.server.change("leave", 2)
    net.round([1])
    found = status.read_status(net.server.directory)
    assert (found.rounds, found.totals.rounds, found.members, found.running) == (8, 3, 3, True)
    assert [(c.client, c.state, c.last_merge, c.absent_rounds, c.rejected) for c in found.clients] == [
        (0, "evicted", 1, 1, {}),
        (1, "member", 2, 0, {"malformed": 1}),
        (2, "left", 0, 2, {}),
        (3, "member", 0, 2, {}),
    ]
    assert found.clients[0].reason == "a reason"
    assert found.recent[-1].took > 0
    assert found.last_commit == found.recent[-1].time
    assert alarms(net) == [
        ("client evicted", "client 0 is not asked: a reason"),
        ("messages rejected", "1 of client 1 in the last 3 rounds, reason: malformed"),
    ]


def test_a_server_that_does_not_run(net):
    def after(*actions):
        """The alarms when a server has made these changes and ended."""
        with ServerEndpoint.open(net.server.directory, net.deployment, net.problem) as server:
            for action in actions:
                server.change(action)
        return alarms(net)

    net.round()
    assert alarms(net) == []
    net.server.release()
    not_running = [("server not running", "the run is not finished and no server runs")]
    assert alarms(net) == not_running
    assert after("pause") == []
    assert after("resume") == not_running
    assert after("stop") == []


def test_a_finished_run_needs_no_server(net):
    net.finish()
    net.server.release()
    assert alarms(net) == []


def test_no_progress(net, monkeypatch):
    net.round()
    last = status.read_status(net.server.directory).last_commit
    monkeypatch.setattr("fedswe.deploy.status.time.time", lambda: last + 81)
    assert alarms(net) == [("no progress", "no round was committed for 81 s, the bound is 80 s")]
    monkeypatch.undo()
    net.server.change("pause")
    monkeypatch.setattr("fedswe.deploy.ledger.time.time", lambda: last + 1000)
    assert alarms(net) == []
    net.server.change("resume")
    assert alarms(net) == []  # the time of the pause does not count
    monkeypatch.setattr("fedswe.deploy.status.time.time", lambda: last + 1081)
    assert alarms(net) == [("no progress", "no round was committed for 81 s, the bound is 80 s")]


def test_silent_clients_and_those_that_are_missing(net):
    monitor = Monitor(net.server.directory, net.deployment, ledger.read(net.server.directory / ledger.FILE))
    monitor.now(Activity("gathering reports", 0, (0, 1, 2), 2, (1,)))
    found = status.read_status(net.server.directory)
    assert [(c.connected, c.silent) for c in found.clients] == [
        (True, False),
        (True, True),
        (True, False),
        (False, False),
    ]
    assert alarms(net) == [("client silent", "client 1 is connected and does not answer")]
    monitor.now(Activity("waiting for clients", 0, (0,), 2))
    assert alarms(net) == [("not enough clients", "1 clients are connected, a round needs 2")]


def test_a_client_that_does_not_answer_is_silent(net):
    deployment = replace(net.deployment, deadline=0.3)
    net.restart(deployment)
    poll = net.transport.poll
    net.transport.poll = lambda timeout: (a for a in poll(0.01) if not (a.client == 2 and a.kind == "job"))
    rounds = Rounds(net.server, net.transport)
    for _ in range(3):
        rounds.step()
    assert read_activity(net.server.directory).silent == (2,)
    assert ("client silent", "client 2 is connected and does not answer") in alarms(net)


def test_little_space_and_requests_that_were_refused(net, monkeypatch):
    control = RequestFolder(net.server.directory)
    control.submit(Request("pause"))
    assert status.read_status(net.server.directory).requests == [Request("pause")]
    control.refuse(control.pending()[0][0], "for the test")
    usage = type("Usage", (), {"free": 5_000_000})
    monkeypatch.setattr("fedswe.deploy.status.shutil.disk_usage", lambda path: usage)
    assert [name for name, _ in alarms(net)] == ["little disk space", "request refused"]


def test_a_model_that_is_not_finite(net):
    net.round()
    net.server.record(Evaluation({"round": 1, "server_train_loss": float("nan"), "seconds": 1.0}))
    assert alarms(net) == [("model not finite", "server_train_loss is nan")]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff",
        b"[1]",
        b'{"doing": 1, "connected": 3, "silent": []}',
        b'{"doing": "\\u001b[31m", "connected": [], "silent": []}',
        b'{"doing": ["paused"], "connected": [], "silent": []}',
        b'{"doing": "paused", "round": "1", "connected": [], "silent": []}',
        b'{"doing": "paused", "connected": ["1"], "silent": []}',
        b'{"doing": "paused", "connected": [], "silent": [], "time": {}}',
        b"[" * 100_000,
    ],
)
def test_damaged_progress_is_ignored(net, content):
    (net.server.directory / "control").mkdir(mode=0o700)
    (net.server.directory / "control" / "progress").write_bytes(content)
    assert status.read_status(net.server.directory).activity is None
