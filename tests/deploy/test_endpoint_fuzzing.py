"""Whatever a packet holds, no exception leaves the handler, the models stay those of an honest run, memory is flat."""

import random

import psutil
import pytest

from fedswe.deploy import Packet
from tests.deploy.fuzzing import INFINITE, mutated
from tests.deploy.parts import Network, quadratic

NAMES = ["fedswe", "fedavg", "mifa", "scaffold"]
DECLINED = {"reason": "absent"}


def resident():
    """Megabytes of this process."""
    return psutil.Process().memory_info().rss / 2**20


def attack_server(folder, name, count, seed):
    """`count` packets to a server, over rounds with honest clients; returns the server and the growth of memory."""
    rng = random.Random(seed)
    rounds = 10
    net = Network(folder, quadratic(name, p=1.0, rounds=rounds))
    clean = Network(folder / "clean", quadratic(name, p=1.0, rounds=rounds))
    before, kept = 0.0, []
    for t in range(rounds):
        jobs = {i: Packet.from_bytes(job.to_bytes()) for i, job in net.server.jobs(range(4)).items()}
        report = net.clients[0].handle(jobs[0])
        answers = [Packet(kind, report.header, {}) for kind in ("ack", "need_state")]
        answers.append(Packet("decline", {**report.header, **DECLINED}))
        kept = [*kept[-20:], report.to_bytes(), *(answer.to_bytes() for answer in answers), jobs[0].to_bytes()]
        for _ in range(count // rounds):
            data = mutated(rng, rng.choice(kept))
            again = net.server.receive(rng.choice([3, 3, 3, 0, 7, -1]), data)
            assert again is None or again.kind == "job"
        net.server.receive(3, INFINITE)
        for i, job in jobs.items():
            net.converse(i, job)
        net.close()
        clean.round()
        assert net.server.committed.model == clean.server.committed.model
        if t == 1:
            before = resident()
    return net.server, resident() - before


def attack_client(folder, name, count, seed):
    rng = random.Random(seed)
    net = Network(folder, quadratic(name, p=1.0))
    net.round()
    job = Packet.from_bytes(net.server.jobs([0])[0].to_bytes())
    based = net.server._job(0, attach_base=True)
    expected = net.clients[0].handle(job).to_bytes()
    valid = [job.to_bytes(), based.to_bytes()]
    net.converse(0, job)
    valid += [delivery.to_bytes() for delivery in net.server.close().values()][:1]
    before = 0.0
    for i in range(count):
        answer = net.clients[0].handle(mutated(rng, rng.choice(valid)))
        assert answer.kind in ("report", "decline", "need_state", "ack")
        assert len(answer.to_bytes()) < 10_000
        if i == count // 5:
            before = resident()
    grown = resident() - before
    net.restart_client(0)
    answer = net.clients[0].handle(based if based.arrays else job)
    assert answer.arrays.keys() == Packet.from_bytes(expected).arrays.keys()
    assert {n: x.tolist() for n, x in answer.arrays.items()} == {
        n: x.tolist() for n, x in Packet.from_bytes(expected).arrays.items()
    }
    return grown


@pytest.mark.parametrize("name", NAMES)
def test_a_fuzzed_server(scratch, name):
    server, grown = attack_server(scratch, name, 1000, seed=1)
    assert server.finished is False or server.t == 10
    assert grown < 30


@pytest.mark.parametrize("name", NAMES)
def test_a_fuzzed_client(scratch, name):
    assert attack_client(scratch, name, 250, seed=2) < 30


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_fuzzing_at_length(scratch, name):
    _, grown = attack_server(scratch / "server", name, 25_000, seed=3)
    assert grown < 30
    assert attack_client(scratch / "client", name, 5_000, seed=4) < 30
