"""A task with large models and no data, to measure what a server and its clients need.

    python -m tests.deploy.wide fedswe 1000 1000000 2 DIRECTORY

runs two rounds of 1000 clients and 1e6 parameters in one process, and prints the peak memory.
"""

import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from fedswe.core.local import Local
from fedswe.deploy import Deployment, InMemoryTransport, Rounds, ServerEndpoint
from fedswe.experiment.experiment import Evaluate, Experiment
from fedswe.tasks.problem import Problem, Task
from tests.algorithms import ALGORITHMS


@dataclass(frozen=True)
class Client:
    target: torch.Tensor  # [n]

    def client(self, i):
        return Client(self.target[i])


class WideProblem(Problem):
    """F_i(x) = ||x - u_i||^2 / 2, where all coordinates of u_i are i / m."""

    def __init__(self, m, d):
        self.m, self.start = m, torch.zeros(d)

    def draw(self, clients, t, steps, batch_size):
        return [Client(clients / self.m)] * steps

    def gradient(self, x, batch, precision="fp32"):
        return x - batch.target

    def gradients(self, x, batch, precision="fp32"):
        return x - batch.target[:, None]

    def full_gradients(self, x, clients):
        return x - (clients / self.m)[:, None]

    def evaluate(self, x):
        return {"train_loss": float(x.mean())}


@dataclass(frozen=True)
class Wide(Task):
    m: int = 2
    d: int = 10

    title = "large models"

    def build(self, setting):
        return WideProblem(self.m, self.d)


def deployment(name, m, d, rounds, **options):
    experiment = Experiment(
        rounds=rounds,
        algorithm=ALGORITHMS[name](),
        task=Wide(m, d),
        local=Local(steps=1, batch_size=1, lr=0.1),
        evaluate=Evaluate(every=10**6, model=["server"]),
    )
    return Deployment(experiment, deadline=3600.0, keep_rounds=0, **options)


def peak():
    """Megabytes that this process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(name, m, d, rounds, directory):
    plan = deployment(name, m, d, rounds)
    problem, folder = plan.problem(), Path(directory)
    before, began, disk = peak(), time.monotonic(), 0

    class Watched(InMemoryTransport):
        def poll(self, timeout):
            nonlocal disk
            yield from super().poll(timeout)
            disk = max(disk, sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))

    with ServerEndpoint.open(folder / "server", plan, problem) as server:
        transport = Watched(plan, folder / "clients", problem)
        rounds_of = Rounds(server, transport)
        while not server.finished:
            rounds_of.step()
            assert len(server.committed.merged) == m
    seconds = (time.monotonic() - began) / rounds
    return {"peak_mb": peak(), "grown_mb": peak() - before, "seconds_per_round": seconds, "disk_mb": disk / 2**20}


if __name__ == "__main__":
    from tests.deploy import wide  # a task must be importable, which the module `__main__` is not

    torch.set_num_threads(1)
    name, *numbers, directory = sys.argv[1:]
    print(json.dumps(wide.measured(name, *map(int, numbers), directory)))
