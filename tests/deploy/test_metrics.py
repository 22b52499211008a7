"""Metrics in the text format of Prometheus, and the health check: over HTTP, from a run and from a thread."""

import http.client
import math
import re
import socket
import time
from dataclasses import replace

import pytest

from fedswe.deploy import Rounds, ledger
from fedswe.deploy.metrics import Metric, exposition, metrics, serve_metrics
from fedswe.deploy.monitor import Activity, Monitor
from tests.deploy.parts import Network, quadratic

_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"\})? (\S+)')


def parsed(text):
    """The samples of a text in Prometheus's format 0.0.4, which must be correct: {(name, label): value}."""
    assert text.endswith("\n")
    found, kinds, helped = {}, {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            assert kind in ("counter", "gauge")
            kinds[name] = kind
        else:
            matched = _SAMPLE.fullmatch(line)
            assert matched, line
            name, label, value, number = matched.groups()
            assert name in kinds
            assert (kinds[name] == "counter") == name.endswith("_total")
            key = name if label is None else (name, re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), value))
            assert key not in found
            found[key] = float(number.replace("Inf", "inf"))
    return found


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type"), text


@pytest.fixture
def monitor(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=3, m=2, p=1.0, simulate_absence=False, deadline=10.0))
    net.finish()
    return Monitor(net.server.directory, net.deployment, ledger.read(net.server.directory / ledger.FILE))


def test_any_label_and_number_can_be_parsed():
    values = {'a "quoted" \\ name\nwith lines': math.inf, "b": -math.inf, "ü": 1e-30, "": 0.0}
    found = parsed(
        exposition([Metric("one", "gauge", "Help.", None, "label", values), Metric("two", "gauge", "x", 3.0)])
    )
    assert found == {**{("one", label): value for label, value in values.items()}, "two": 3.0}
    assert math.isnan(parsed(exposition([Metric("one", "gauge", "Help.", math.nan)]))["one"])


def test_a_running_server_answers_with_its_numbers(scratch):
    port = free_port()
    deployment = quadratic("fedswe", rounds=4, m=3, p=1.0, simulate_absence=False, metrics_port=port)
    net = Network(scratch, deployment)
    net.server.change("evict", 2)
    answers = {}
    poll = net.transport.poll

    def polled(timeout):
        if net.server.t == 2 and not answers:
            answers.update({path: get(port, path) for path in ("/metrics", "/healthz", "/")})
            net.server.receive(0, b"no packet")
        return poll(timeout)

    net.transport.poll = polled
    net.finish()
    status, kind, text = answers["/metrics"]
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = parsed(text)
    assert found["fedswe_rounds_committed"] == 2
    assert found["fedswe_reports_merged_total"] == 4
    assert (found["fedswe_members"], found["fedswe_clients_evicted"], found["fedswe_clients_connected"]) == (3, 1, 2)
    assert found["fedswe_bytes_total", "up report"] > 0
    assert found["fedswe_round_seconds_total"] > found["fedswe_round_seconds_last"] > 0
    assert 0 <= found["fedswe_last_commit_age_seconds"] < found["fedswe_last_commit_age_bound_seconds"] == 180
    assert found["fedswe_disk_free_bytes"] > 0
    assert found["fedswe_paused"] == 0
    assert found["fedswe_score", "server_train_loss"] > 0
    assert answers["/healthz"] == (200, "text/plain; charset=utf-8", "delivering\n")
    assert answers["/"][0] == 404
    with pytest.raises(ConnectionRefusedError):
        get(port, "/metrics")  # the run has ended
    again = Monitor(net.server.directory, deployment, ledger.read(net.server.directory / ledger.FILE))
    found = parsed(exposition(metrics(again)))  # totals are of the run, not of one server
    assert found["fedswe_rounds_committed"] == 4
    assert found["fedswe_messages_rejected_total", "malformed"] == 1


def test_health_follows_the_deadline(monitor, monkeypatch):
    now = time.monotonic()
    assert monitor.bound == 2 * 10 + 60

    def after(seconds, doing, **more):
        monitor.activity = replace(Activity(), doing=doing, **more)
        monkeypatch.setattr("fedswe.deploy.monitor.time.monotonic", lambda: now + seconds)
        return monitor.health()

    assert after(50, "gathering reports").ok
    late = after(100, "gathering reports")
    assert not late.ok
    assert re.fullmatch(r"no round was committed for \d+ s, the bound is 80 s", late.reason)
    assert after(100, "waiting for clients", needed=2, connected=(1,)).reason.endswith(
        ": 1 clients are connected, a round needs 2"
    )
    assert after(1e6, "paused").ok
    assert after(1e6, "finished").ok
    monitor.now(Activity("paused"))
    monitor.now(Activity("gathering reports"))
    assert after(1e6 + 50, "gathering reports").ok  # the time of the pause does not count


def test_a_late_server_answers_503(monitor, monkeypatch):
    port = free_port()
    monitor.bound = -1.0
    monitor.activity = Activity("gathering reports")
    with serve_metrics(monitor, port):
        status, _, text = get(port, "/healthz")
    assert status == 503
    assert "no round was committed" in text


def test_only_loopback_is_served(monitor):
    port = free_port()
    with serve_metrics(monitor, port), socket.socket() as other:
        assert get(port, "/metrics")[0] == 200
        with pytest.raises(ConnectionRefusedError):  # the machine has other addresses, as 127.0.0.2
            other.connect(("127.0.0.2", port))


def test_a_connection_that_says_nothing_does_not_keep_the_server(monitor):
    port = free_port()
    with socket.socket() as silent, serve_metrics(monitor, port):
        silent.connect(("127.0.0.1", port))
        assert get(port, "/metrics")[0] == 200


def test_a_port_in_use_is_one_warning(scratch, caplog):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        net = Network(scratch, quadratic("fedswe", rounds=2, m=2, metrics_port=port))
        Rounds(net.server, net.transport).run()
    assert net.server.finished
    warned = [r.getMessage() for r in caplog.records if "metrics" in r.getMessage()]
    assert warned == [
        f"no metrics: port {port} cannot be used (Address already in use): choose another deploy.metrics_port"
    ]
