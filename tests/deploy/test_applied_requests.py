"""What an operator asks of a run: pause, resume, stop, evict and admit, with and without a running server."""

import subprocess
import sys
import time

import pytest

from fedswe.deploy import Rounds, ServerEndpoint, ledger
from fedswe.deploy.applied_requests import AppliedRequests
from fedswe.deploy.durable_files import in_use_now
from fedswe.deploy.requests import FOLDER, Request, RequestFolder
from fedswe.errors import FedsweError
from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic


def contents(folder):
    return ledger.read(folder / ledger.FILE)


def small(**options):
    return quadratic("fedswe", rounds=6, m=3, **{"p": 1.0, "simulate_absence": False, **options})


class Asking:
    """A network on which an operator asks something after given rounds."""

    def __init__(self, folder, deployment, requests):
        self.net, self.requests = Network(folder, deployment), requests
        self.control = RequestFolder(self.net.server.directory)
        self.rounds = Rounds(self.net.server, self.net.transport)
        self.polls = 0
        poll = self.net.transport.poll

        def polled(timeout):
            self.polls += 1
            for request in self.requests.pop((self.net.server.t, self.polls), []):
                self.control.submit(request)
            return poll(0.001)

        self.net.transport.poll = polled

    def ask(self, *requests):
        for request in requests:
            self.control.submit(request)


# within one process ----------------------------------------------------------------------------------------
def test_an_evicted_client_is_not_asked_and_still_counts(scratch):
    net = Network(scratch, small())
    rounds, control = Rounds(net.server, net.transport), RequestFolder(net.server.directory)
    rounds.step()
    control.submit(Request("evict", 1, "wrong data"))
    rounds.step()
    assert net.server.committed.merged.keys() == {0, 2}
    assert net.server.m == 3
    net.restart()
    rounds = Rounds(net.server, net.transport)
    rounds.step()
    assert net.server.committed.merged.keys() == {0, 2}
    control.submit(Request("admit", 1))
    rounds.step()
    assert net.server.committed.merged == {0: 2, 1: 0, 2: 2}  # it echoes the rounds it missed
    changes = contents(net.server.directory).changes
    assert [(c.action, c.t, c.client, c.reason) for c in changes] == [
        ("evict", 1, 1, "wrong data"),
        ("admit", 3, 1, ""),
    ]


def test_evicted_clients_are_not_part_of_a_quorum(scratch):
    """Otherwise the server would commit one empty round after the other."""
    net = Network(scratch, small(min_clients=1))
    net.transport.online = {1}
    rounds, control = Rounds(net.server, net.transport), RequestFolder(net.server.directory)
    control.submit(Request("evict", 1))
    polls = 0
    poll = net.transport.poll

    def polled(timeout):
        nonlocal polls
        polls += 1
        assert net.server.t == 0 or net.transport.online == {0, 1}
        if polls == 3:
            net.transport.online = {0, 1}
        return poll(0.001)

    net.transport.poll = polled
    rounds.step()
    assert net.server.committed.merged.keys() == {0}


def test_a_paused_server_opens_no_round_and_stays_paused_after_a_restart(scratch):
    asking = Asking(scratch, small(), {})
    asking.ask(Request("pause"))
    server = asking.net.server
    AppliedRequests(server).apply()
    assert server.paused
    asking.net.restart()
    server = asking.net.server
    assert server.paused
    asking.rounds = Rounds(server, asking.net.transport)
    asking.requests = {(0, 5): [Request("resume")]}
    asking.rounds.step()
    assert asking.polls >= 5
    assert server.t == 1
    assert not contents(server.directory).paused


def test_stop_ends_after_the_open_round(scratch):
    asking = Asking(scratch, small(delivery="lazy"), {(2, 3): [Request("stop")]})
    asking.rounds.run()
    assert asking.net.server.t == 3  # the round that was open is committed
    found = contents(asking.net.server.directory)
    assert found.stopped
    asking.net.restart()
    asking.net.finish()
    assert asking.net.server.finished
    assert not contents(asking.net.server.directory).stopped


def test_a_stop_for_an_earlier_server_is_dropped(scratch):
    net = Network(scratch, small())
    RequestFolder(net.server.directory).submit(Request("stop"))
    net.restart()
    net.finish()
    assert net.server.finished


def test_requests_without_effect_are_no_lines(scratch):
    net = Network(scratch, small())
    control = RequestFolder(net.server.directory)
    for request in (Request("resume"), Request("admit", 2), Request("evict", 0), Request("evict", 0)):
        control.submit(request)
    AppliedRequests(net.server).apply()
    assert [change.action for change in contents(net.server.directory).changes] == ["evict"]
    assert control.pending() == []


@pytest.mark.parametrize("request_", [Request("leave", 1), Request("evict", 1), Request("pause")], ids=str)
def test_a_request_that_an_earlier_server_applied_is_no_error(scratch, request_):
    net = Network(scratch, small())
    control = RequestFolder(net.server.directory)
    control.submit(request_)
    net.server.change(request_.action, request_.client)  # and the server ends before it removes the file
    net.restart()
    AppliedRequests(net.server).apply()
    assert (control.pending(), control.refused()) == ([], 0)
    assert len(contents(net.server.directory).changes) == (request_.client >= 0)


def test_a_request_that_is_taken_back_while_it_is_read_does_not_end_the_server(scratch, monkeypatch):
    net = Network(scratch, small())
    control, read = RequestFolder(net.server.directory), RequestFolder.pending
    for request in (Request("stop"), Request("pause")):
        control.submit(request)

    def taken_back(self):
        found = read(self)
        for path, _ in found:
            path.unlink()
        return found

    monkeypatch.setattr(RequestFolder, "pending", taken_back)
    AppliedRequests(net.server).apply()
    assert (net.server.stopped, net.server.paused) == (False, True)
    assert control.refused() == 0


def test_impossible_requests_are_refused_and_the_run_goes_on(scratch):
    net = Network(scratch, small())
    control = RequestFolder(net.server.directory)
    control.submit(Request("evict", 99))
    control.submit(Request("admit", 99))
    control.submit(Request("leave", 99))
    (net.server.directory / FOLDER / "9.json").write_text("{")
    net.finish()
    assert net.server.finished
    assert control.refused() == 4
    text = (net.server.directory / "server.log").read_text()
    assert "client 99 is not a member of the run" in text


def test_a_folder_that_others_can_write_does_not_stop_the_run(scratch):
    net = Network(scratch, small())
    RequestFolder(net.server.directory).submit(Request("pause"))
    (net.server.directory / FOLDER).chmod(0o777)
    net.finish()
    assert net.server.finished
    assert (net.server.directory / "server.log").read_text().count("can be written by others") == 1


def test_a_second_server_ends_before_it_builds_the_task(scratch, monkeypatch):
    net = Network(scratch, small())

    def build(task):
        raise AssertionError("built")

    monkeypatch.setattr(type(net.deployment.experiment.task), "build", build)
    with pytest.raises(FedsweError, match="is in use by another process"):
        ServerEndpoint.open(net.server.directory, net.deployment)


# with a server process -------------------------------------------------------------------------------------
def until(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def serve(scratch):
    """Starts servers as processes, and ends them."""
    started = []

    def start(*words, rounds=1000, port=0):
        command = [
            sys.executable,
            "-m",
            "tests.deploy.slow_server",
            str(scratch / "run"),
            str(rounds),
            str(port),
            *words,
        ]
        started.append(subprocess.Popen(command))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_commands_to_a_server_of_another_process(scratch, serve, monkeypatch, capsys):
    run = scratch / "run"

    def command(*words):
        return fedswe(monkeypatch, capsys, "deploy", *words)

    server = serve()
    until(lambda: (run / ledger.FILE).is_file() and len(contents(run).entries) > 1, server)
    assert in_use_now(run) is True
    code, text, _ = command("evict", run, 2, "--reason", "maintenance")
    assert (code, text) == (0, "evict     client 2 requested: the server applies it after the open round\n")
    until(lambda: contents(run).evicted == {2}, server)
    at = len(contents(run).entries)
    until(lambda: len(contents(run).entries) > at + 1, server)
    assert contents(run).entries[-1].merged.keys() == {0, 1}

    command("pause", run)
    until(lambda: contents(run).paused, server)
    committed = len(contents(run).entries)
    text = command("status", run)[1]
    assert "server    running, paused" in text
    assert "ALARM     client evicted: client 2 is not asked: maintenance" in text
    time.sleep(0.5)
    assert len(contents(run).entries) == committed
    command("admit", run, 2)
    command("leave", run, 1)  # a paused server applies requests too
    until(lambda: contents(run).changes[-1].action == "leave", server)
    command("resume", run)
    until(lambda: len(contents(run).entries) > committed + 1, server)
    assert contents(run).entries[-1].merged.keys() == {0, 2}
    command("stop", run)
    assert server.wait(300) == 0
    assert contents(run).stopped
    assert in_use_now(run) is False

    code, _, error = command("stop", run)
    assert (code, error) == (2, f"error: no server runs on {run}: to keep the next one from opening rounds, pause\n")
    assert "at its next start: no server runs now" in command("pause", run)[1]


def test_status_of_a_server_that_waits_for_clients(scratch, serve, monkeypatch, capsys):
    run = scratch / "run"
    server = serve("0", "1")
    until(
        lambda: (run / FOLDER / "progress").is_file() and "waiting" in (run / FOLDER / "progress").read_text(), server
    )
    text = fedswe(monkeypatch, capsys, "deploy", "status", run)[1]
    assert "ALARM     not enough clients: 1 clients are connected, a round needs 2" in text
    server.kill()
    server.wait()
    text = fedswe(monkeypatch, capsys, "deploy", "status", run)[1]
    assert "ALARM     server not running" in text
    assert "not enough clients" not in text
