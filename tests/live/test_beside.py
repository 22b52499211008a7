"""`run --live`, `compare --live` and `gym --live`: a server beside the command, which ends with it."""

import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from http.client import HTTPConnection

import pytest

from fedswe.live.serve import PORT
from tests.live.server import PATIENCE, QUICK, until


@pytest.fixture(autouse=True)
def usual_port():
    """Not used here: a server of another test may get it right after this one, and would be taken for it."""
    with socket.socket() as taken:
        with suppress(OSError):
            taken.bind(("127.0.0.1", PORT))
        yield


def start(tmp_path, *words):
    command = [sys.executable, "-m", "fedswe", *words, "--out", str(tmp_path / "out"), "--live"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    return process, int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])


def answers(port):
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection, suppress(OSError):
        connection.request("GET", "/live.css")
        with connection.getresponse() as answer:
            return answer.status == 200
    return False


def ended(process):
    process.stderr.close()
    return process.wait(PATIENCE)


def test_the_page_is_there_while_the_run_is_and_gone_after_it(tmp_path):
    process, port = start(tmp_path, "run", *QUICK, "rounds=200000")
    assert answers(port)
    until((tmp_path / "out" / "history.csv").exists, "the run did not start")
    process.send_signal(signal.SIGTERM)
    assert ended(process) == 128 + signal.SIGTERM
    assert not answers(port)
    assert (tmp_path / "out" / "checkpoint.safetensors").is_file()


def test_the_server_ends_when_the_run_is_killed(tmp_path):
    process, port = start(tmp_path, "run", *QUICK, "rounds=200000")
    assert answers(port)
    process.kill()
    ended(process)
    until(lambda: not answers(port), "the server is still there")


def test_a_comparison_has_a_page_too(tmp_path):
    options = ("--algorithms=fedavg,fedswe", "--seeds=3", "--jobs=1")
    process, port = start(tmp_path, "compare", *QUICK[:-1], "rounds=200000", *options)
    assert answers(port)
    until((tmp_path / "out" / "runs").exists, "the comparison did not start")
    process.kill()
    ended(process)
    until(lambda: not answers(port), "the server is still there")


def test_a_gym_has_a_page_too(tmp_path):
    options = ("--scale=ci", "--rules=fedavg", "--availability=sine", "--jobs=1")
    process, port = start(tmp_path, "gym", *options)
    assert answers(port)
    until((tmp_path / "out" / "ci" / "work").exists, "the gym did not start")
    assert gym_on(port)
    process.kill()
    ended(process)
    until(lambda: not answers(port), "the server is still there")


def gym_on(port):
    """Whether the page lists a gym, as soon as it lists anything."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", "/events")
        with connection.getresponse() as answer:
            while line := answer.readline():
                if line.startswith(b"data: ") and (items := json.loads(line[6:]).get("items")):
                    return any(item.get("form") == "gym" for item in items)
    return False
