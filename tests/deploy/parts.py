"""Deployments small enough to run by the hundred, and a quiet network that loses nothing."""

from fedswe.algorithms import ALGORITHMS
from fedswe.availability import Stationary
from fedswe.core.local import Local
from fedswe.deploy import ClientEndpoint, Deployment, ServerEndpoint
from fedswe.experiment.experiment import Experiment
from fedswe.tasks import Digits, Quadratic
from tests import problems as bench

LOCAL = Local(steps=2, batch_size=8, lr=0.05)

# Every algorithm of the registry, with windows, seats and memory short enough to matter in a few rounds.
PARAMETERS = {
    "fedswe": {"k": 2.0},
    "gfedavg": {"amplification": 1.5, "period": 4},
    "fedau": {"cutoff": 3},
    "f3ast": {"beta": 0.1, "budget": 2, "initial_rate": 0.7},
    "amplified_scaffold": {"amplification": 1.2, "period": 4},
}


def algorithm(name, **more):
    return ALGORITHMS[name](**{"lr": 0.8, **PARAMETERS.get(name, {}), **more})


def quadratic(name, rounds=12, m=4, delivery="eager", **options):
    task = Quadratic(centers=bench.centers(m), curvature=bench.curvatures(m), start=0.3, noise=0.1)
    return deployment(name, task, rounds, delivery, **options)


def digits(name, rounds=10, m=6, delivery="eager", **options):
    return deployment(name, Digits(clients=m, alpha=0.5), rounds, delivery, **options)


def deployment(name, task, rounds, delivery, p=0.6, seed=5, simulate_absence=True, **options):
    experiment = Experiment(
        rounds=rounds,
        seed=seed,
        engine="loop",
        algorithm=algorithm(name) if isinstance(name, str) else name,
        availability=Stationary(p=p),
        task=task,
        local=LOCAL,
    )
    return Deployment(experiment, delivery=delivery, simulate_absence=simulate_absence, **options)


class Quiet:
    """All messages arrive, as bytes, once and in order."""

    def __init__(self, folder, plan):
        self.folder, self.plan, self.problem = folder, plan, plan.problem()
        self.server = ServerEndpoint.open(folder / "server", plan, self.problem)
        self.clients = [self.client(i) for i in range(self.problem.m)]

    def client(self, i, plan=None):
        return ClientEndpoint.open(self.folder / f"client{i}", plan or self.plan, i, self.problem)

    def ask(self, clients=None):
        """Jobs and answers of one round; the answers by client."""
        answers = {}
        jobs = self.server.jobs(range(self.problem.m) if clients is None else clients)
        for i, job in jobs.items():
            answers[i] = self.converse(i, job)
        return answers

    def converse(self, i, packet):
        while packet is not None:
            answer = self.clients[i].handle(packet.to_bytes())
            packet = self.server.receive(i, answer.to_bytes())
        return answer

    def close(self):
        for i, delivery in self.server.close().items():
            self.converse(i, delivery)

    def round(self, clients=None):
        answers = self.ask(clients)
        self.close()
        return answers

    def finish(self):
        while not self.server.finished:
            self.round()

    def restart(self, plan=None):
        """The server process ends and a new one begins."""
        self.server.release()
        self.plan = plan or self.plan
        self.server = ServerEndpoint.open(self.folder / "server", self.plan, self.problem)
