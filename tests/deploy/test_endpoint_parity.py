"""A deployment retraces the simulator: every algorithm, both deliveries, clients that flip their own coins."""

from dataclasses import replace

import numpy as np
import pytest

from fedswe.availability import Mask
from fedswe.deploy import ledger
from fedswe.deploy.audit.verify import verify
from fedswe.deploy.stored_run import trace
from fedswe.experiment.configuration import experiment
from fedswe.experiment.experiment import assemble
from fedswe.gym.advice import RECOMMENDED
from fedswe.gym.rules import Rule
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import DELIVERED, DELIVERIES, Network, algorithm, digits, quadratic


def entries(folder):
    return ledger.read(folder / "server" / ledger.FILE).entries


@pytest.mark.parametrize(("name", "delivery"), DELIVERED)
def test_deployment_equals_simulation(scratch, name, delivery):
    deployment = digits(name, rounds=7, delivery=delivery)
    net, engine = Network(scratch, deployment), assemble(replace(deployment.experiment, engine="batched"))
    away = 0
    while not net.server.finished:
        answers = net.round()
        away += sum(answer.kind == "decline" for answer in answers.values())
        who = engine.step()
        assert len(net.server.committed.merged) == who.reported
        assert not net.server.committed.rejected
        for model, expected in (
            (net.server.server_model(), engine.server_model()),
            (net.server.client_mean(), engine.client_mean()),
        ):
            np.testing.assert_allclose(model.numpy(), expected.numpy(), rtol=0, atol=1e-6)
    assert away > 5 or name == "f3ast"  # its server asks only those it gives a seat
    result = verify(scratch / "server")
    assert result.exact
    assert result.replay.difference == 0
    assert result.passed
    net.server.release()


def test_the_recommended_rule_with_a_server_that_restarts(scratch):
    """Its chain has a state, which a server must find again."""
    deployment = digits(experiment(Rule(RECOMMENDED).table).algorithm, rounds=7)
    net, engine = Network(scratch, deployment), assemble(replace(deployment.experiment, engine="batched"))
    assert deployment.experiment.algorithm.chain
    while not net.server.finished:
        net.round()
        engine.step()
        np.testing.assert_allclose(net.server.server_model().numpy(), engine.server_model().numpy(), rtol=0, atol=1e-6)
        net.restart()
    assert verify(scratch / "server").passed
    net.server.release()


@pytest.mark.parametrize("name", ["fedswe", "fedawe", "fedpbc", "scaffold"])
def test_eager_and_lazy_delivery_have_the_same_bits(scratch, name):
    models = {}
    for delivery in DELIVERIES:
        net = Network(scratch / delivery, quadratic(name, delivery=delivery))
        net.finish()
        models[delivery] = [entry.model for entry in entries(scratch / delivery)]
        net.server.release()
    assert models["eager"] == models["lazy"]
    assert len(set(models["eager"])) > 8


def test_the_delivery_can_change_between_two_starts(scratch):
    straight = Network(scratch / "straight", quadratic("fedswe"))
    straight.finish()
    net = Network(scratch / "changing", quadratic("fedswe", delivery="eager"))
    for delivery in ("lazy", "eager", "lazy"):
        for _ in range(3):
            net.round()
        net.restart(quadratic("fedswe", delivery=delivery))
        for i in range(4):
            net.restart_client(i)
    net.finish()
    assert [e.model for e in entries(scratch / "changing")] == [e.model for e in entries(scratch / "straight")]


def test_the_order_of_arrival_does_not_matter(scratch):
    models = []
    for order in (1, -1):
        net = Network(scratch / str(order), digits("fedswe", rounds=4))
        while not net.server.finished:
            jobs = list(net.server.jobs(range(6)).items())
            for i, job in jobs[::order]:
                net.converse(i, job)
            net.close()
        models.append(net.server.committed.model)
    assert models[0] == models[1]


def test_where_client_state_lives():
    homes = {name: algorithm(name).home for name in ALGORITHMS}
    at_client = {"fedswe", "fedawe", "fedswe_variant", "fedpbc", "fedavg", "fedavg_all", "fedavg_known", "gfedavg"}
    at_client |= {"bounded_fedswe", "echo", "fedasync", "fedbuff"}
    assert {name for name, home in homes.items() if home == "client"} == at_client


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_fedswe_moves_no_more_models_than_fedavg(scratch, delivery):
    """One model up and one down per visit; headers apart, which are the same few hundred bytes for any model."""
    moved = {}
    for name in ("fedswe", "fedavg"):
        net = Network(scratch / name, digits(name, delivery=delivery, p=1.0))
        vector = net.problem.start.numel() * 4
        models = {"up": 0, "down": 0}
        net.finish()
        for entry in entries(scratch / name):
            for kind, size in entry.traffic.items():
                models[kind.split()[0]] += size // vector
        moved[name] = models
    assert moved["fedavg"] == {"up": 60, "down": 60}
    assert moved["fedswe"]["up"] == 60
    assert moved["fedswe"]["down"] == (60 if delivery == "eager" else 54)  # lazily, the first job needs no base


def test_traffic_and_time_are_recorded(scratch):
    net = Network(scratch, digits("fedswe"))
    sizes = {"down job": 0, "up": 0, "down delivery": 0}
    for i, job in net.server.jobs(range(6)).items():
        sizes["down job"] += len(job.to_bytes())
        answer = net.clients[i].handle(job)
        sizes["up"] += len(answer.to_bytes())
        net.server.receive(i, answer.to_bytes())
    sizes["down delivery"] = sum(len(p.to_bytes()) for p in net.server.close().values())
    entry = net.server.committed
    recorded = {k: v for k, v in entry.traffic.items() if k.startswith("down")}
    recorded["up"] = sum(v for k, v in entry.traffic.items() if k.startswith("up"))
    for kind, size in sizes.items():
        assert 0 <= size - recorded[kind] < 6 * 400  # names and shapes of six messages
    assert entry.seconds > 0


def test_f3ast_gives_seats_to_the_lowest_bids_only(scratch):
    net = Network(scratch, quadratic("f3ast", p=1.0))
    seats = []
    for _ in range(4):
        answers = net.round()
        assert len(answers) == 2
        seats.append(set(answers))
    assert seats[0] | seats[1] == {0, 1, 2, 3} == seats[2] | seats[3]  # who had none is served next
    assert all(entry.merged.keys() == seat for entry, seat in zip(entries(scratch), seats, strict=True))


def test_a_latecomer_can_be_asked_in_the_same_round(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    net.ask([0, 1])
    net.ask([1, 3])  # client 1 again: its second report is a duplicate
    net.close()
    assert net.server.committed.merged == {0: -1, 1: -1, 3: -1}
    assert net.server.committed.rejected == {1: {"duplicate": 1}}


def test_trace_replays_in_the_simulator(scratch):
    deployment = digits("fedswe")
    net = Network(scratch, deployment)
    net.finish()
    mask = trace(scratch / "server", scratch / "mask.csv")
    np.testing.assert_array_equal(mask, ledger.merged_mask(entries(scratch), 6))
    assert 10 < mask.sum() < 50
    engine = assemble(replace(deployment.experiment, availability=Mask(file=str(scratch / "mask.csv"))))
    for _ in range(10):
        engine.step()
    np.testing.assert_allclose(engine.server_model().numpy(), net.server.server_model().numpy(), atol=1e-6)
