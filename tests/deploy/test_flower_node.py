"""The node of a client: what it relies on in Flower, its pauses, and its end when one of its parts ends or hangs."""

import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest
from flwr.supercore.superexec import run_superexec
from flwr.supernode import start_client_internal
from flwr.supernode.runtime import run_clientapp

from fedswe.deploy.flower.node import clientapps, launcher, supernode
from fedswe.deploy.flower.node.clientapps import PreloadedClientApps, _Running
from fedswe.deploy.flower.node.pauses import idle_pause
from fedswe.deploy.flower.node.signs_of_life import Receiver, Sender
from fedswe.errors import FedsweError, FedsweWarning


# what it relies on in Flower ----------------------------------------------------------------------------
def test_flower_still_waits_in_the_places_we_shorten():
    source = inspect.getsource(start_client_internal)
    assert start_client_internal.time is time
    assert [line.strip() for line in source.splitlines() if "time.sleep" in line] == [
        f"time.sleep({supernode._IDLE})",
        "time.sleep(0.5)",
        "time.sleep(0.5)",
    ]


def test_flower_still_calls_what_we_replace():
    loop = inspect.getsource(run_superexec.run_superexec)
    assert "executor = get_executor(" in loop
    assert "executor.reconcile()" in loop
    process = inspect.getsource(run_clientapp.run_clientapp)
    assert "pull_task_input(client)" in process
    assert "push_message(client, reply_message, context)" in process


def test_pauses_are_shortened_and_an_unknown_flower_keeps_its_own():
    known, unknown = SimpleNamespace(time=time), SimpleNamespace()
    supernode.shorten_pauses(known)
    began = time.monotonic()
    known.time.sleep(3)
    known.time.sleep(0.5)
    assert time.monotonic() - began < 2
    with pytest.warns(FedsweWarning, match="another way"):
        supernode.shorten_pauses(unknown)
    assert not hasattr(unknown, "time")


def test_idle_pauses_grow_with_the_time_without_work():
    assert [idle_pause(idle, 0.1, 3) for idle in (0, 1, 10, 30, 1e6)] == [0.1, 0.1, 1.0, 3.0, 3.0]


# signs of life ------------------------------------------------------------------------------------------
def test_signs_of_life():
    receiver = Receiver(first=30, further=0.2)
    sender = Sender(os.dup(receiver.handle))
    receiver.started()
    assert not receiver.silent()  # it may take its time for the first one
    sender.send()
    assert not receiver.silent()
    time.sleep(0.3)
    assert receiver.silent()
    sender.send()
    assert not receiver.silent()
    for _ in range(100_000):  # of a parent that does not read
        sender.send()
    assert not receiver.silent()
    receiver.close()
    with pytest.raises(BrokenPipeError):
        sender.send()


# ClientApps ---------------------------------------------------------------------------------------------
def killed(news):
    news.send(60)
    os.kill(os.getpid(), signal.SIGKILL)


def ends_quietly(news):
    news.send(60)


def hangs(news):
    news.send(0.1)
    time.sleep(600)


def answers(news):
    news.send(60)
    news.send(True)
    sys.exit(1)  # as Flower does when the app has raised: the answer says so


@pytest.fixture
def apps(monkeypatch):
    """ClientApps without a SuperExec; what the fixture yields adds a running one."""
    monkeypatch.setattr(clientapps.forkserver, "ensure_running", lambda: None)
    monkeypatch.setattr(clientapps, "_GRACE", 0.1)
    receiver = Receiver(60, 60)
    executor = PreloadedClientApps(Sender(receiver.handle))
    context = multiprocessing.get_context("fork")

    def add(target):
        news, sender = context.Pipe(duplex=False)
        process = context.Process(target=target, args=(sender,))
        process.start()
        sender.close()
        executor._running.append(_Running(process, news))
        return process

    yield executor, add
    executor.close()
    receiver.close()


def settle(executor, seconds=30):
    limit = time.monotonic() + seconds
    while executor._running:
        assert time.monotonic() < limit
        executor.reconcile()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (killed, "ended without an answer .exit code -9."),
        (ends_quietly, "ended without an answer .exit code 0."),
        (hangs, "no answer when its message expired"),
    ],
)
def test_a_message_that_will_have_no_answer_ends_the_superexec(apps, target, message):
    executor, add = apps
    process = add(target)
    with pytest.raises(FedsweError, match=message):
        settle(executor)
    process.join(10)
    assert not process.is_alive()


def test_a_clientapp_that_has_answered_may_end_as_it_likes(apps):
    executor, add = apps
    add(answers)
    settle(executor)
    assert executor._running == []  # and no error was raised


# the launcher -------------------------------------------------------------------------------------------
def test_options_of_the_two_programs():
    given = ["--superlink", "server:8000", "--root-certificates", "ca.crt", "--port", "9000"]
    node, executor = launcher._commands(given)
    assert node == [*given[:4], "--isolation", "process", "--host", "127.0.0.1", "--port", "9000"]
    assert executor == ["--runtime-api-address", "127.0.0.1:9000", "--insecure"]
    node, executor = launcher._commands(["--ssl-ca-certfile", "own.crt", "--insecure"])
    assert node[:1] == ["--insecure"]
    assert node[-2:] == ["--ssl-ca-certfile", "own.crt"]
    assert executor[-2:] == ["--root-certificates", "own.crt"]
    assert executor[1] == f"127.0.0.1:{node[node.index('--port') + 1]}"  # a free port


@pytest.mark.parametrize(
    "options", [["--isolation", "subprocess"], ["--superexec-auth-secret-file", "x"], ["--port", "y"]]
)
def test_options_that_the_node_sets_itself(options):
    with pytest.raises(FedsweError, match=options[0]):
        launcher._commands(options)


# Stand-ins for SuperNode and SuperExec: they show signs of life like the real ones, and write their secret aside.
PART = """
import os, signal, sys, time
from pathlib import Path
from fedswe.deploy.flower.node.signs_of_life import Sender
life = Sender(int(sys.argv[1]))
life.send_from_thread()
secret = Path(sys.argv[-1]).read_bytes()
Path({folder!r}, "{name}").write_text(f"{{os.getpid()}} {{secret.decode()}}")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
time.sleep(600)
"""
NODE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedswe.deploy.flower.node import launcher
from fedswe.cli import main
launcher._MODULES = {"SuperNode": "supernode_part", "SuperExec": "superexec_part"}
launcher._FURTHER, launcher._GRACE = 2.0, 1.0
sys.argv = ["fedswe", "deploy", "node", "--", "--insecure"]
main()
"""


class Node:
    """A launcher with stand-ins."""

    def __init__(self, folder):
        self._folder = folder
        for name in ("supernode", "superexec"):
            (folder / f"{name}_part.py").write_text(PART.format(folder=str(folder), name=name))
        path = os.pathsep.join([str(folder), *sys.path])
        environment = {**os.environ, "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-c", NODE], env=environment, stderr=subprocess.PIPE, text=True
        )
        until(lambda: all((folder / name).is_file() and self.read(name) for name in ("supernode", "superexec")))
        self.parts = {name: psutil.Process(int(self.read(name)[0])) for name in ("supernode", "superexec")}

    def read(self, name):
        return (self._folder / name).read_text().split()

    def end(self):
        said = self.process.communicate(timeout=300)[1]
        until(lambda: not any(alive(part) for part in self.parts.values()))
        return self.process.returncode, said


def alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(condition, seconds=300):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path)
    yield node
    node.process.kill()
    node.process.communicate()
    for part in node.parts.values():
        if alive(part):
            part.kill()


def test_the_two_parts_share_a_secret_that_nobody_else_has(node):
    ours, theirs = node.read("supernode")[1], node.read("superexec")[1]
    assert ours == theirs
    assert len(ours) == 64
    for process in (node.process.pid, *(part.pid for part in node.parts.values())):
        assert ours not in " ".join(psutil.Process(process).cmdline())


@pytest.mark.parametrize(("part", "name"), [("supernode", "SuperNode"), ("superexec", "SuperExec")])
def test_a_node_ends_with_each_of_its_parts(node, part, name):
    node.parts[part].kill()
    assert node.end() == (2, f"error: the {name} has ended (exit code -9): start the node again\n")


@pytest.mark.parametrize(("part", "name"), [("supernode", "SuperNode"), ("superexec", "SuperExec")])
def test_a_node_ends_when_a_part_hangs(node, part, name):
    node.parts[part].suspend()
    assert node.end() == (2, f"error: the {name} does not respond: start the node again\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_node_that_is_told_to_end_stops_its_parts(node, number):
    node.process.send_signal(number)
    assert node.end() == (0, "")


def test_the_parts_end_when_the_node_is_killed(node):
    node.process.kill()
    assert node.end()[0] == -9
