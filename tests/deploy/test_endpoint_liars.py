"""Messages that are wrong, forged, late or repeated are turned away, counted and logged; honest work goes on."""

import logging
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedswe.deploy import Packet
from fedswe.deploy.audit.verify import verify
from fedswe.tasks import Quadratic
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import Network, algorithm, deployment, digits, quadratic


def altered(packet, header=None, **arrays):
    """The packet with other header values, and its vectors under functions of the same names ("x" for all)."""
    change = arrays.get("x", lambda v: v)
    return Packet(packet.kind, {**packet.header, **(header or {})}, {n: change(v) for n, v in packet.arrays.items()})


LIES = {
    "NaN": ("not finite", lambda p: altered(p, x=lambda v: v * float("nan"))),
    "infinity": ("not finite", lambda p: altered(p, x=lambda v: v / 0)),
    "one NaN": ("not finite", lambda p: altered(p, x=lambda v: torch.cat([v[:-1], v[:1] * float("nan")]))),
    "longer": ("schema", lambda p: altered(p, x=lambda v: torch.cat([v, v]))),
    "shorter": ("schema", lambda p: altered(p, x=lambda v: v[:1])),
    "wider": ("schema", lambda p: altered(p, x=lambda v: v.double())),
    "other names": ("schema", lambda p: replace(p, arrays={f"{n}z": v for n, v in p.arrays.items()})),
    "more arrays": ("schema", lambda p: replace(p, arrays={**p.arrays, "extra": torch.zeros(1)})),
    "no arrays": ("schema", lambda p: replace(p, arrays={})),
    "next round": ("round", lambda p: altered(p, {"round": p.header["round"] + 1})),
    "last round": ("round", lambda p: altered(p, {"round": p.header["round"] - 1})),
    "no round": ("round", lambda p: altered(p, {"round": "soon"})),
    "other epoch": ("epoch", lambda p: altered(p, {"epoch": "00000000"})),
    "other run": ("run", lambda p: altered(p, {"run": "0" * 16})),
    "other base": ("base", lambda p: altered(p, {"base": "0" * 32})),
    "older merge": ("base", lambda p: altered(p, {"merged": p.header["merged"] - 1})),
    "other client": ("client", lambda p: altered(p, {"client": 1})),
    "unknown kind": ("malformed", lambda p: replace(p, kind="job")),
    "huge": ("norm", lambda p: altered(p, x=lambda v: v + 1e30)),
}


@pytest.mark.parametrize("name", ["fedswe", "fedavg", "scaffold"])
def test_a_lie_is_rejected_counted_and_logged_and_the_liar_may_come_back(scratch, caplog, name):
    net = Network(scratch, quadratic(name, p=1.0, rounds=len(LIES) + 3))
    for _ in range(3):
        net.round()
    for lie, (reason, forge) in LIES.items():
        jobs = net.server.jobs(range(4))
        honest = net.clients[2].handle(jobs[2])
        caplog.clear()
        with caplog.at_level(logging.WARNING, "fedswe.deploy"):
            assert net.server.receive(2, forge(honest)) is None
        assert f"client 2 rejected ({reason})" in caplog.text, lie
        net.converse(0, jobs[0])
        if lie != "no arrays":  # the truth later in the same round is taken
            net.server.receive(2, honest)
        net.close()
        assert net.server.committed.rejected == {2: {reason: 1}}, lie
        assert set(net.server.committed.merged) == ({0} if lie == "no arrays" else {0, 2}), lie
    assert verify(scratch / "server").exact


@pytest.mark.parametrize("name", ["fedswe", "mifa"])
def test_a_replayed_report_is_not_counted_twice(scratch, name):
    net = Network(scratch, quadratic(name, p=1.0))
    first = net.round()
    replayed = first[1].to_bytes()
    for _ in range(2):
        net.ask([0])
        assert net.server.receive(1, replayed) is None
        net.close()
        assert net.server.committed.rejected == {1: {"round": 1}}
        assert set(net.server.committed.merged) == {0}
    again = net.ask([1])[1].to_bytes()
    net.server.receive(1, again)
    net.close()
    assert net.server.committed.rejected == {1: {"duplicate": 1}}
    assert verify(scratch / "server").exact


def test_nobody_reports_unasked(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    answer = net.clients[3].handle(net.server.jobs([3])[3])
    net.restart()
    net.server.jobs([0])
    forged = altered(answer, {"epoch": net.server.epoch})
    net.server.receive(3, forged)
    net.server.receive(77, altered(forged, {"client": 77}))
    net.close()
    assert net.server.committed.rejected == {3: {"uninvited": 1}, -1: {"client": 1}}
    assert net.server.committed.merged == {}


def test_asking_for_state_forever_is_stopped(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    job = net.server.jobs([0])[0]
    begging = Packet("need_state", {**job.header, "holds": ""})
    answers = [net.server.receive(0, begging) for _ in range(5)]
    assert [answer is not None for answer in answers] == [True, True, True, False, False]
    net.close()
    assert net.server.committed.rejected == {0: {"repeated": 2}}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_bound_is_on_how_far_a_client_moves_whatever_is_made_of_it(scratch, name):
    """max_norm just above and just below the distance of the local training decides."""
    free = Network(scratch / "free", digits(name, p=1.0, rounds=4, m=2))
    for who in ([0], [0, 1], [0]):  # so that client 1 has been away
        free.round(who)
    free.ask([1])
    far = free.server._round.reports[1].move
    assert far > 1e-3
    for factor, merged in ((1.01, {1}), (0.99, set())):
        net = Network(scratch / str(factor), digits(name, p=1.0, rounds=4, m=2))
        for who in ([0], [0, 1], [0]):
            net.round(who)
        net.restart(digits(name, p=1.0, rounds=4, m=2, max_norm=far * factor))
        net.round([1])
        assert set(net.server.committed.merged) == merged


def test_fedswe_moves_are_measured_before_the_echo(scratch):
    """The distance is that of the local training, not of the echoed model, which grows with the absence."""
    net = Network(scratch, quadratic("fedswe", p=1.0))
    for _ in range(5):
        net.round([0])
    job = net.server.jobs([1])[1]
    answer = net.clients[1].handle(job)
    net.server.receive(1, answer)
    start = net.problem.start.double().numpy()
    echoed = answer.arrays["report.x"].double().numpy() - start
    assert net.server._round.reports[1].move == pytest.approx(np.linalg.norm(echoed) / (0.8 * 6), rel=1e-5)


@pytest.mark.parametrize(("size", "lr"), [(1e9, 0.8), (1.0, 1e-9)])
@pytest.mark.parametrize("name", ["fedswe", "fedavg", "fedpbc"])
def test_moves_are_measured_however_large_the_model_and_small_the_rate(scratch, name, size, lr):
    task = Quadratic(centers=[[size], [2 * size]], start=3 * size)
    net = Network(scratch, deployment(algorithm(name, lr=lr), task, 4, "eager", p=1.0))
    net.round()
    assert set(net.server.committed.merged) == {0, 1}
    if lr > 1e-3:  # the larger of the two moves, by hand: two steps of 0.05 to the center one or two sizes away
        assert max(net.server.committed.moves.values()) == pytest.approx(2 * size * (1 - 0.95**2), rel=1e-5)


def fuzzed(rng, honest):
    """Random bytes, or a report that was cut, or that claims something else."""
    packet = Packet.from_bytes(honest)
    kind = rng.choice(["random", "cut", "header", "shape"])
    if kind == "random":
        return rng.randbytes(rng.randrange(300))
    if kind == "cut":
        return honest[: rng.randrange(len(honest))]
    if kind == "shape":
        return altered(packet, x=lambda v: torch.ones(rng.choice([0, 1, 2, 4, 10_000]))).to_bytes()
    key = rng.choice(["run", "epoch", "round", "merged", "base", "client"])
    return altered(packet, {key: rng.choice([-(10**30), 10**30, 0.5, "?", "\ud800", "x" * 5000])}).to_bytes()


@pytest.mark.parametrize("name", ["fedswe", "fedvarp"])
def test_fuzzed_messages_never_hurt_a_server(scratch, name):
    """Forty wrong messages in every round: the models are those of an undisturbed run, the ledger stays small."""
    rng = random.Random(3)
    net = Network(scratch, quadratic(name, rounds=25, m=2, p=1.0))
    clean = Network(scratch / "clean", quadratic(name, rounds=25, m=2, p=1.0))
    while not net.server.finished:
        jobs = net.server.jobs([0, 1])
        honest = net.clients[0].handle(jobs[0]).to_bytes()
        for _ in range(40):
            assert net.server.receive(rng.choice([0, 1, 9, -1]), fuzzed(rng, honest)) is None
        assert not net.server._round.reports
        for i, job in jobs.items():
            net.converse(i, job)
        net.close()
        clean.round()
        entry = net.server.committed
        assert entry.model == clean.server.committed.model
        assert sum(sum(why.values()) for why in entry.rejected.values()) == 40
    assert len((scratch / "server" / "ledger.jsonl").read_bytes()) < 25 * 1200


@pytest.mark.parametrize("name", ["fedswe", "fedavg", "scaffold"])
def test_fuzzed_messages_never_hurt_a_client(scratch, name):
    net = Network(scratch, quadratic(name, p=1.0))
    for _ in range(2):
        net.round()
    client = net.clients[0]
    job = net.server.jobs([0])[0]
    expected = client.handle(job).to_bytes()
    wire = job.to_bytes()

    @given(
        st.binary(max_size=100) | st.integers(0, len(wire) - 1).map(lambda n: wire[:n]),
        st.sampled_from(sorted(job.header)),
        st.integers() | st.text(max_size=8),
    )
    def attack(data, key, value):
        assert client.handle(data).kind == "decline"
        forged = altered(job, {key: value})
        answer = client.handle(forged)
        assert answer.kind in ("decline", "need_state", "report")
        assert answer.header["client"] == 0
        assert client.handle(altered(job, x=lambda v: v[:1])).kind == ("decline" if job.arrays else "report")
        assert client.handle(Packet("delivery", dict(forged.header), {"reply.x": torch.ones(3)})).kind == "decline"

    attack()
    assert client.handle(job).to_bytes() == expected
