"""Requests to a run on the command line: what they say, and what they refuse."""

import pytest

from fedswe.deploy.requests import Request, RequestFolder
from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic
from tests.deploy.test_membership import sites


@pytest.fixture
def deploy(monkeypatch, capsys):
    def command(*words):
        code, out, err = fedswe(monkeypatch, capsys, "deploy", *words)
        return code, out + err

    return command


def ended(folder, deployment):
    """A run of one round whose server has ended."""
    net = Network(folder, deployment)
    net.round()
    net.server.release()
    return folder / "server"


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        (["pause"], Request("pause")),
        (["resume", "--reason", "repaired"], Request("resume", -1, "repaired")),
        (["evict", "1", "--reason", "bad data"], Request("evict", 1, "bad data")),
        (["admit", "1"], Request("admit", 1)),
        (["leave", "0"], Request("leave", 0)),
    ],
)
def test_a_request_waits_for_the_next_server(tmp_path, deploy, words, request_):
    run = ended(tmp_path, quadratic("fedswe", m=3))
    code, text = deploy(words[0], run, *words[1:])
    assert code == 0
    assert text.endswith("requested: the server applies it at its next start: no server runs now\n")
    assert RequestFolder(run).waiting() == [request_]


def test_join_says_what_to_do_next(tmp_path, deploy):
    run = ended(tmp_path, sites("fedswe", 2))
    code, text = deploy("join", run)
    assert code == 0
    assert "set the task's number of clients to 3 in the app's deployment.toml" in text
    assert deploy("join", run)[0] == 0
    assert RequestFolder(run).waiting() == [Request("join", 2), Request("join", 3)]
    assert "request   join client 2, not applied yet" in deploy("status", run)[1]


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("fedswe", ["evict", "7"], "client 7 does not exist: the run has 3, counted from 0"),
        ("fedswe", ["evict", "--", "-1"], "client -1 does not exist: the run has 3, counted from 0"),
        ("fedswe", ["pause", "--reason", "a\nb"], "the reason must be one line of at most 200 printable characters"),
        ("fedswe", ["join"], "no client can join: the task divides one data set"),
        ("mifa", ["leave", "0"], "no client can leave: the server's state of MIFA contains"),
        ("mifa", ["join"], "no client can join: the server's state of MIFA contains"),
        ("fedau", ["join"], "no client can join: FedAU estimates how often"),
    ],
)
def test_what_is_refused_leaves_no_request(tmp_path, deploy, name, words, message):
    run = ended(tmp_path, quadratic(name, m=3, simulate_absence=False))
    at = words.index("--") if "--" in words else 1
    code, text = deploy(*words[:at][:1], run, *words[1:])
    assert code == 2
    assert text.startswith(f"error: {message}")
    assert len(text.splitlines()) == 1
    assert RequestFolder(run).waiting() == []


def test_one_that_has_left_can_be_asked_nothing(tmp_path, deploy):
    net = Network(tmp_path, quadratic("fedswe", m=3))
    net.server.change("leave", 1)
    net.server.release()
    assert deploy("admit", tmp_path / "server", 1) == (2, "error: client 1 has left the run for good\n")
