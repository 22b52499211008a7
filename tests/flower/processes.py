"""Real Flower processes for tests: start them, read what they say, end them and all that they have started."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

BIN = Path(sys.executable).parent
_MARK = "FEDSWE_TEST"  # environment variable that all processes of a federation have


class Program:
    """One program with a log and a process group of its own."""

    def __init__(self, command, log, environment):
        options = {"env": environment, "cwd": log.parent, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with open(log, "ab") as file:
            self.process = subprocess.Popen(list(map(str, command)), stdout=file, start_new_session=True, **options)
        self.log = log

    def said(self):
        return self.log.read_text(errors="replace")

    def end(self, number=signal.SIGTERM, seconds=10):
        """Send the signal, then SIGKILL to what is left of the group: a killed node leaves its SuperExec running."""
        for each in (number, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, each)
                self.process.wait(seconds)


class Federation(AbstractContextManager):
    """SuperLink, SuperNodes and Flower's commands, with all files in a folder; all end with the `with` block.

    superlink(port), supernode(name, port, node config), run(app, **run config), finished(run), said(run); start() for
    programs with other options. An option is what the environment has: FLWR_HOME, PYTHONPATH.
    """

    def __init__(self, folder, **environment):
        self.folder, self.programs = Path(folder), []
        self.folder.mkdir(parents=True)
        off = ["TELEMETRY_ENABLED=0", "DISABLE_UPDATE_CHECK=1", "DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1"]
        own = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}  # Flower starts its own programs by name
        own |= {f"FLWR_{name}": value for name, value in (word.split("=") for word in off)}
        self.environment = {**os.environ, **own, "FLWR_HOME": str(folder), _MARK: str(folder), **environment}

    def __exit__(self, *_):
        for program in reversed(self.programs):  # the SuperLink last, so that nodes can tell it that they go
            program.end()
        while found := self.pids():
            with suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)

    def pids(self):
        """What runs of this federation, also detached: Flower detaches ServerApps and ClientApps."""
        mark = f"{_MARK}={self.folder}".encode()
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in _words(path)]

    def start(self, name, *command, **environment):
        """A program whose log is NAME.log."""
        self.programs.append(Program(command, self.folder / f"{name}.log", {**self.environment, **environment}))
        return self.programs[-1]

    def superlink(self, port):
        """A SuperLink without TLS that listens on the port and has a database, so that it can be killed and started."""
        connection = f'[superlink.server]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
        (Path(self.environment["FLWR_HOME"]) / "config.toml").write_text(connection)
        options = ["--insecure", "--host", "127.0.0.1", "--port", port, "--database", self.folder / "superlink.db"]
        return listening(port, self.start("superlink", BIN / "flower-superlink", *options))

    def supernode(self, name, port, config):
        """A SuperNode without TLS of the SuperLink at the port."""
        options = ["--insecure", "--superlink", f"127.0.0.1:{port}", "--port", free_port(), "--node-config", config]
        return self.start(name, BIN / "flower-supernode", *options)

    def flwr(self, *words, seconds=120):
        """One of Flower's commands, with its output as text."""
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": seconds}
        return subprocess.run(list(map(str, (BIN / "flwr", *words))), env=self.environment, cwd=self.folder, **options)

    def answer(self, *words):
        """What a command says in JSON."""
        done = self.flwr(*words, "--format", "json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout[done.stdout.index("{") :])

    def run(self, app, **config):
        """Submit a run of an app; returns its number."""
        given = " ".join(f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in config.items())
        return self.answer("run", app, "server", *(["--run-config", given] if given else []))["run-id"]

    def status(self, run):
        """Status and its details, such as ("finished:failed", "ServerApp failed with exception: ...")."""
        (found,) = self.answer("ls", "server", "--run-id", run)["runs"]
        return found["status"], found["status-details"]

    def finished(self, run, seconds=180):
        """The status of a run when it has ended."""
        limit = time.monotonic() + seconds
        while not (status := self.status(run))[0].startswith("finished"):
            assert time.monotonic() < limit, f"the run goes on after {seconds} s:\n{self.said(run)}"
            time.sleep(1)
        return status

    def said(self, run):
        """The log of the ServerApp."""
        return self.flwr("log", run, "server", "--show").stdout


def _words(path):
    with suppress(OSError):
        return path.read_bytes().split(b"\0")
    return []


def free_port():
    """A port of the loopback interface that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port, program, seconds=60):
    """The program, when it listens on the port."""
    limit = time.monotonic() + seconds
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return program
        assert program.process.poll() is None, program.said()
        assert time.monotonic() < limit, program.said()
        time.sleep(0.1)
