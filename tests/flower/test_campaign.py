"""A long run between real processes with dozens of faults.

What has ended is started again, as systemd does, and a run that failed is continued by the same command.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from fedswe.flower.store import Records
from tests.flower.processes import BIN, Federation, free_port, listening

pytestmark = pytest.mark.campaign
EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
SEED, ROUNDS, PAIRS = 7, 40, 8  # at least so many rounds
NODES = ("a", "bb", "ccc")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)
# Those that live for seconds first.
TARGETS = ["flwr-clientapp", "flwr-serverapp", "flower-superexec", "flower-supernode", "flower-superlink", "link"]
PAUSES = [2, 5, 10, 20, 70]  # seconds for which a process is stopped: after a minute Flower takes it for dead

SERVER = """
import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from fedswe.flower import Strategy
app = ServerApp()

@app.main()
def main(grid, context):
    run = context.run_config
    options = {"fraction_evaluate": 0.0, "min_available_nodes": run["min-available-nodes"], "keep_reports": True}
    made = Strategy(run["rule"], store=run["store"], names=run["names"], **options)
    layers = np.random.default_rng(0).standard_normal((10, 100), np.float32)  # Flower sends equal ones once
    start = ArrayRecord({f"layer {i}": Array(layer) for i, layer in enumerate(layers)})
    made.start(grid, start, run["num-server-rounds"], timeout=30)
"""
CLIENT = """
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from fedswe.flower import mod
app = ClientApp(mods=[mod])

@app.train()
def train(message, context):
    x = {name: array.numpy() for name, array in message.content["arrays"].items()}
    x = {name: Array(value + np.float32(0.1) * (len(context.node_config["name"]) - value)) for name, value in x.items()}
    return Message(RecordDict({"arrays": ArrayRecord(x), "m": MetricRecord({"num-examples": 1})}), reply_to=message)
"""
LINK = """
import asyncio, sys

async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()

async def serve(reader, writer):
    try:
        there = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
        await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer))
    finally:
        writer.close()

loop = asyncio.new_event_loop()
loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])))
loop.run_forever()
"""


@pytest.fixture
def app(tmp_path):
    """The example with a model that is only numbers; (tmp_path / "link") passes on what nodes and SuperLink say."""
    folder = shutil.copytree(EXAMPLE, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "federated_digits" / "server_app.py").write_text(SERVER)
    (folder / "federated_digits" / "client_app.py").write_text(CLIENT)
    (tmp_path / "link").write_text(LINK)
    return folder


class Machines:
    """SuperLink, a link that can be cut, three SuperNodes behind it, and a run."""

    def __init__(self, fed, app, store):
        inside, outside, self.fed, self.store = free_port(), free_port(), fed, store
        self.goal, self.submit = 1000, lambda: fed.run(app, store=str(store), num_server_rounds=self.goal)
        link = [sys.executable, app.parent / "link", outside, inside]
        self.starts = {"superlink": lambda: fed.superlink(inside)}
        self.starts["link"] = lambda: listening(outside, fed.start("link", *link))
        self.starts |= {name: partial(fed.supernode, name, outside, f'name="{name}"') for name in NODES}
        self.programs, self.runs, self.rounds, self.looked = {}, [], 0, 0.0

    def status(self):
        return self.fed.status(self.runs[-1])[0]

    def tend(self):
        """Start what has ended, also the run; committed rounds are never fewer than before."""
        for name, start in self.starts.items():
            if name not in self.programs or self.programs[name].process.poll() is not None:
                self.programs[name] = start()
        if time.monotonic() > self.looked + 10:
            if not self.runs or self.status() in ("finished:failed", "finished:stopped"):
                self.runs.append(self.submit())
            self.looked = time.monotonic()
        before, self.rounds = self.rounds, len(Records(self.store).rounds()) if self.store.exists() else 0
        assert self.rounds >= before

    def until(self, reached):
        limit = time.monotonic() + 900
        while not reached():
            assert time.monotonic() < limit, f"round {self.rounds}: it does not go on\n{self.fed.said(self.runs[-1])}"
            self.tend()
            time.sleep(0.5)

    def hit(self, target, number, draw):
        """Send a signal to a process of a program, as soon as there is one; its number and its command."""
        for _ in range(4000):  # a node that is gone is waited for, and nothing runs meanwhile
            with suppress(ProcessLookupError, FileNotFoundError):  # it has just ended
                commands = {p: Path(f"/proc/{p}/cmdline").read_bytes().decode().split("\0") for p in self.fed.pids()}
                if found := [pid for pid, words in commands.items() if target in [Path(w).name for w in words[:2]]]:
                    os.kill(pid := draw.choice(found), number)
                    return pid, commands[pid]
            time.sleep(0.05)
        raise AssertionError(f"there is no {target}")


def test_a_run_survives_dozens_of_faults(tmp_path, app):
    draw, store, began, counts = random.Random(SEED), tmp_path / "federation.db", time.monotonic(), Counter()
    faults = [[(target, number)] for target in TARGETS for number in SIGNALS]
    faults += [[(target, draw.choice(SIGNALS)) for target in draw.sample(TARGETS, 2)] for _ in range(PAIRS)]
    draw.shuffle(faults)
    with Federation(tmp_path / "logs") as fed:
        machines = Machines(fed, app, store)
        for fault in [*faults, []]:
            machines.until(lambda goal=machines.rounds + 1: machines.rounds >= goal)
            time.sleep(draw.uniform(0, 6))
            pause, stopped = draw.choice(PAUSES), []
            for target, number in sorted(fault, key=lambda kind: TARGETS.index(kind[0])):
                print(f"{time.monotonic() - began:.0f} s, round {machines.rounds}: {number.name} {target}", flush=True)
                pid, words = machines.hit(target, number, draw)
                counts[f"{number.name} {target}"] += 1
                if number == signal.SIGSTOP:
                    stopped.append(pid)
                elif target == "flower-superexec":  # which nobody starts again: its SuperNode or SuperLink is restarted
                    os.kill(int(words[words.index("--parent-pid") + 1]), signal.SIGTERM)
            time.sleep(pause if stopped else draw.uniform(0, 10))
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            machines.tend()
        machines.goal = max(ROUNDS, machines.rounds + 5)
        fed.flwr("stop", machines.runs[-1], "server")
        machines.until(lambda: machines.rounds == machines.goal and machines.status() == "finished:completed")
    assert fed.pids() == []
    done = subprocess.run([BIN / "fedswe", "flower", "replay", store], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records, goal = Records(store), machines.goal
    merges = Counter(name for row in records.rounds() for name in row["merged"])
    counts |= {"runs": len(machines.runs), "repeated": sum(len(records.attempts(r)) for r in range(1, goal + 1))}
    print(dict(counts), dict(merges), f"{time.monotonic() - began:.0f} s", done.stdout)
    assert merges.keys() == set(NODES)
    assert 1.5 * goal < merges.total() <= 3 * goal
