"""Faults on the processes of a federation at random times, by a seed."""

import random
import signal
import time

import psutil

from tests.deploy.federation import name_of

# What is hit, and how it is found. A target that does not run at the moment is replaced by another one.
TARGETS = {
    "SuperLink": lambda fed: fed.program("flower-superlink"),
    "SuperExec of the server": lambda fed: fed.program("flower-superexec"),
    "ServerApp": lambda fed: fed.program("flwr-serverapp"),
    "node": lambda fed: fed.launchers(),
    "SuperNode": lambda fed: fed.program("node.supernode"),
    "SuperExec of a node": lambda fed: fed.program("node.superexec"),
    "preloaded process": lambda fed: [p for p in fed.program("multiprocessing.forkserver") if not is_clientapp(p)],
    "ClientApp": lambda fed: fed.clientapps(),
    "proxy": lambda fed: fed.program("nginx"),
}
SIGNALS = ("SIGKILL", "SIGTERM", "SIGSTOP")


def is_clientapp(process):
    return name_of(process) == "flwr-clientapp"


class Campaign:
    """So many faults, each on a process chosen by the seed, while the rounds of a federation run."""

    def __init__(self, fed, seed, faults, pause=(1.0, 6.0), rounds=6):
        self._fed, self._random, self._left = fed, random.Random(seed), faults
        self._pause, self._rounds = pause, rounds
        self.done = []

    def run(self, seconds=1500):
        """Until all faults have happened and the run has ended; its rounds are extended as long as faults are left."""
        fed, limit = self._fed, time.monotonic() + seconds
        rounds = self._rounds
        if fed.process is None:
            fed.up(f"rounds={rounds}")
        fed.until_round(1)
        while True:
            while self._left and fed.process.poll() is None:
                self._wait(self._random.uniform(*self._pause))
                self._fault()
                assert time.monotonic() < limit, f"{self._left} faults left:\n{fed.said()}"
            code = fed.end(max(limit - time.monotonic(), 60))
            assert code == 0, f"`up` ended with {code} after {self.done}:\n{fed.said()}"
            if not self._left:
                return
            rounds += self._rounds
            fed.up(f"rounds={rounds}")

    def _wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._fed.process.poll() is None:
            time.sleep(0.05)

    def _fault(self):
        """A fault on a random target that runs; ClientApps run only now and then, and are waited for a little."""
        target = self._random.choice(sorted(TARGETS))
        found = []
        for _ in range(200):
            if found := TARGETS[target](self._fed):
                break
            time.sleep(0.05)
        if not found:
            return
        victim, number = self._random.choice(sorted(found, key=lambda p: p.pid)), self._random.choice(SIGNALS)
        try:
            victim.send_signal(getattr(signal, number))
        except psutil.Error:
            return
        self._left -= 1
        self.done.append((target, number))
        if number == "SIGSTOP":
            self._wait(self._random.uniform(0.5, 8.0))
            try:
                victim.send_signal(signal.SIGCONT)
            except psutil.Error:
                return
