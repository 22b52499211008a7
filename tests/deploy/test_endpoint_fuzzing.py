"""Whatever a packet holds, no exception leaves the handler, honest clients are merged, and memory is flat."""

import random

import psutil
import pytest

from fedswe.deploy import Packet
from tests.deploy.fuzzing import INFINITE, mutated
from tests.deploy.parts import Network, quadratic

NAMES = ["fedswe", "fedavg", "mifa", "scaffold"]


def resident():
    """Megabytes of this process."""
    return psutil.Process().memory_info().rss / 2**20


def attack_server(folder, name, count, seed):
    """`count` packets from client 3 and from nobody, in rounds with three honest clients; the growth of memory."""
    rng, rounds = random.Random(seed), 10
    net = Network(folder, quadratic(name, p=1.0, rounds=rounds))
    before, kept = 0.0, []
    for t in range(rounds):
        if 3 in net.server.evicted:
            net.server.change("admit", 3, "to be attacked again")
        jobs = {i: Packet.from_bytes(job.to_bytes()) for i, job in net.server.jobs(range(4)).items()}
        report = net.clients[3].handle(jobs[3])
        answers = [Packet(kind, report.header) for kind in ("ack", "need_state")]
        answers.append(Packet("decline", {**report.header, "reason": "absent"}))
        kept = [*kept[-20:], *(packet.to_bytes() for packet in (report, *answers, jobs[3]))]
        net.server.receive(3, INFINITE)
        for _ in range(count // rounds):
            again = net.server.receive(rng.choice([3, 3, 3, 7, -1]), mutated(rng, rng.choice(kept)))
            assert again is None or again.kind == "job"
        for i in (0, 1, 2):
            net.converse(i, jobs[i])
        net.close()
        assert {0, 1, 2} <= set(net.server.committed.merged)
        assert net.server.server_model().norm() < 10  # not NaN either
        if t == 1:
            before = resident()
    return resident() - before


def attack_client(folder, name, count, seed):
    rng = random.Random(seed)
    net = Network(folder, quadratic(name, p=1.0))
    net.round()
    job = Packet.from_bytes(net.server.jobs([0])[0].to_bytes())
    based = net.server._packets.job(0, attach_base=True)
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
    assert attack_server(scratch, name, 1000, seed=1) < 30


@pytest.mark.parametrize("name", NAMES)
def test_a_fuzzed_client(scratch, name):
    assert attack_client(scratch, name, 250, seed=2) < 30


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_fuzzing_at_length(scratch, name):
    assert attack_server(scratch / "server", name, 25_000, seed=3) < 30
    assert attack_client(scratch / "client", name, 5_000, seed=4) < 30
