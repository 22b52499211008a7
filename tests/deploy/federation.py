"""A real federation for tests: an app with gates to stop clients at, and `fedswe deploy up` as a process."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import psutil
import tomli_w

from fedswe.deploy import ledger
from fedswe.deploy.deployment import FILE, Deployment
from fedswe.deploy.flower.app_template import write_app
from fedswe.deploy.flower.processes import marked
from fedswe.experiment.experiment import assemble
from fedswe.results.model_file import Models

ABSENCE = {"name": "stationary", "p": 0.7}

# The task of the tests: the digits, with a gate in front of every client's training, which may also be slow.
TASK = """
import time
from dataclasses import dataclass
from pathlib import Path

from fedswe.tasks import Digits


@dataclass(frozen=True)
class Gated(Digits):
    gates: str = ""

    def build(self, setting):
        problem = super().build(setting)
        draw, gates = problem.draw, Path(self.gates)

        def gated(clients, t, steps, batch_size):
            for client in clients.tolist():
                (gates / f"training-{client}-{t}").touch()
                while (gates / f"closed-{client}-{t}").exists():
                    time.sleep(0.05)
                if (gates / f"slow-{client}").exists():
                    time.sleep(6)
            return draw(clients, t, steps, batch_size)

        problem.draw = gated
        return problem
"""


def name_of(process):
    """Of a process that may have ended."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def words_of(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class Federation:
    """An app in `folder`, and the process that runs it."""

    def __init__(self, folder, clients, tls=False, **sections):
        self.app, self.run, self.gates = folder / "app", folder / "app" / "run", folder / "gates"
        self.home, self.output = folder / "home", folder / "up.log"
        write_app(self.app, clients, tls)
        self.gates.mkdir(parents=True)
        self.home.mkdir()
        (self.app / "federation" / "task.py").write_text(TASK)
        table = tomllib.loads((self.app / "deployment.toml").read_text())
        table["task"] = {"name": "federation.task:Gated", "clients": clients, "alpha": 1.0, "gates": str(self.gates)}
        table["local"] = {"steps": 2, "batch_size": 8, "lr": 0.2}
        for name, values in sections.items():
            changed = isinstance(values, dict) and "name" not in values
            table[name] = {**table[name], **values} if changed else values
        (self.app / "deployment.toml").write_text(tomli_w.dumps(table))
        self.process = None

    # the command ---------------------------------------------------------------------------------------
    def up(self, *words):
        environment = {**os.environ, "HOME": str(self.home), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        command = [sys.executable, "-m", "fedswe", "deploy", "up", str(self.app), *words]
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def end(self, seconds=200):
        """The exit code of the command."""
        return self.process.wait(seconds)

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def said(self):
        return self.output.read_text()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        for orphan in self.alive():  # of a supervisor the test has killed
            orphan.kill()
        if error is not None:
            print(self.said(), *(f"\n== {p.name}\n{p.read_text()[-1500:]}" for p in self.run.glob("flower/logs/*")))

    # what is there -------------------------------------------------------------------------------------
    def entries(self):
        path = self.run / ledger.FILE
        return ledger.read(path).entries if path.is_file() else []

    def until(self, condition, what, seconds=240):
        """Wait for something to come true while the command runs."""
        limit = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"`up` ended before {what}:\n{self.said()}"
            assert time.monotonic() < limit, f"no {what} after {seconds} s:\n{self.said()}"
            time.sleep(0.05)

    def until_round(self, committed, seconds=240):
        self.until(lambda: len(self.entries()) >= committed, f"round {committed}", seconds)

    # faults --------------------------------------------------------------------------------------------
    def close_gate(self, client, t):
        (self.gates / f"closed-{client}-{t}").touch()

    def open_gate(self, client, t):
        (self.gates / f"closed-{client}-{t}").unlink()

    @contextmanager
    def slow(self, client):
        """Within this context the client takes its time, so that few rounds pass, which cost much."""
        path = self.gates / f"slow-{client}"
        path.touch()
        yield
        path.unlink()

    def training(self, client, t):
        return (self.gates / f"training-{client}-{t}").exists()

    def alive(self):
        return marked(str(self.run))

    def program(self, *words):
        """The process whose command line has all these words."""
        found = []
        for process in self.alive():
            line = words_of(process)
            if all(any(word in part for part in line) for word in words):
                found.append(process)
        return found

    def supernode(self, client):
        (process,) = self.program("node.supernode", f"client-{client}.toml")
        return process

    def launchers(self):
        """The launcher of every node: `fedswe deploy node`."""
        return [process for process in self.program("--superlink") if "node" in words_of(process)]

    def clientapps(self):
        """ClientApps at work: forks, which have the command line of the process they come from."""
        return [process for process in self.alive() if name_of(process) == "flwr-clientapp"]

    def messages_sent(self, client):
        """How many messages a SuperNode has sent back, by its own log."""
        path = self.run / "flower" / "logs" / f"client-{client}.log"
        return path.read_text().count("Sent successfully") if path.is_file() else 0

    # proof ---------------------------------------------------------------------------------------------
    def find_task(self, monkeypatch):
        """Let this process import the app's task, and not that of another test."""
        monkeypatch.syspath_prepend(str(self.app))
        for name in ("federation.task", "federation"):
            sys.modules.pop(name, None)

    def assert_equals_simulation(self, monkeypatch):
        """The same seed and the same coins, without processes: the same models, to 1e-6."""
        self.find_task(monkeypatch)
        engine = assemble(replace(Deployment.load(self.run / FILE).experiment, engine="batched"))
        for entry in self.entries():
            assert engine.step().reported == len(entry.merged)
        final = Models.read(self.run / "model.safetensors").vectors
        np.testing.assert_allclose(final["server"], engine.server_model(), rtol=0, atol=1e-6)
        np.testing.assert_allclose(final["client_mean"], engine.client_mean(), rtol=0, atol=1e-6)
