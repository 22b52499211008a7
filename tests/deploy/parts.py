"""Small deployments, and a server with its clients in this process, driven step by step."""

from fedswe.availability import Stationary
from fedswe.core.footprint import footprint
from fedswe.core.local import Local
from fedswe.deploy import ClientEndpoint, Deployment, InMemoryTransport, Packet, Rounds, ServerEndpoint
from fedswe.experiment.experiment import Evaluate, Experiment
from fedswe.tasks import Digits, Quadratic
from tests import problems
from tests.algorithms import ALGORITHMS

LOCAL = Local(steps=2, batch_size=8, lr=0.05)

# Every algorithm of the registry, with windows, seats and memory short enough to matter in a few rounds.
PARAMETERS = {
    "fedswe": {"k": 2.0},
    "gfedavg": {"amplification": 1.5, "period": 4},
    "fedau": {"cutoff": 3},
    "f3ast": {"beta": 0.1, "budget": 2, "initial_rate": 0.7},
    "amplified_scaffold": {"amplification": 1.2, "period": 4},
    "fedstale": {"cutoff": 3},
    "fedbuff": {"buffer": 3},
}

# Every algorithm with both deliveries; where no reply is delivered, which changes nothing then, with one of the two.
DELIVERIES = ("eager", "lazy")
DELIVERED = [
    (name, delivery)
    for number, name in enumerate(ALGORITHMS)
    for delivery in DELIVERIES
    if footprint(ALGORITHMS[name](), 1).reply or delivery == DELIVERIES[number % 2]
]


def algorithm(name, **more):
    return ALGORITHMS[name](**{"lr": 0.8, **PARAMETERS.get(name, {}), **more})


def quadratic(name, rounds=12, m=4, delivery="eager", **options):
    task = Quadratic(centers=problems.centers(m), curvature=problems.curvatures(m), start=0.3, noise=0.1)
    return deployment(name, task, rounds, delivery, **options)


def digits(name, rounds=10, m=6, delivery="eager", **options):
    return deployment(name, Digits(clients=m, alpha=0.5), rounds, delivery, **options)


def deployment(name, task, rounds, delivery, p=0.6, seed=5, simulate_absence=True, evaluate=None, **options):
    experiment = Experiment(
        rounds=rounds,
        seed=seed,
        engine="loop",
        algorithm=algorithm(name) if isinstance(name, str) else name,
        availability=Stationary(p=p),
        task=task,
        local=LOCAL,
        evaluate=evaluate or Evaluate(),
    )
    options = {"keep_rounds": 0, **options}
    return Deployment(experiment, delivery=delivery, simulate_absence=simulate_absence, **options)


class Network:
    """A server and its clients over the in-memory transport."""

    def __init__(self, folder, deployment):
        self.folder, self.deployment, self.problem = folder, deployment, deployment.problem()
        self.server = ServerEndpoint.open(folder / "server", deployment, self.problem)
        self.transport = InMemoryTransport(deployment, folder / "clients", self.problem)
        self.clients = self.transport.clients

    def ask(self, clients=None):
        """Jobs and answers of one round; returns the answers by client."""
        jobs = self.server.jobs(range(self.problem.m) if clients is None else clients)
        return {i: self.converse(i, job) for i, job in jobs.items()}

    def converse(self, i, packet):
        """Send a packet to a client, and answer until nothing is left to send; returns the client's last answer."""
        while packet is not None:
            self.transport.send(packet.kind, packet.header["round"], {i: packet})
            (arrival,) = self.transport.poll(0.0)
            packet = self.server.receive(i, arrival.packet)
        return Packet.from_bytes(arrival.packet)

    def close(self):
        for i, delivery in self.server.close().items():
            self.converse(i, delivery)

    def round(self, clients=None):
        answers = self.ask(clients)
        self.close()
        return answers

    def finish(self):
        return Rounds(self.server, self.transport).run()

    def restart(self, deployment=None):
        """The server process ends and a new one begins."""
        self.server.release()
        self.deployment = deployment or self.deployment
        self.server = ServerEndpoint.open(self.folder / "server", self.deployment, self.problem)

    def restart_client(self, i, deployment=None):
        """A client process ends and a new one begins."""
        self.clients[i] = ClientEndpoint.open(self.folder / "clients", deployment or self.deployment, i, self.problem)
