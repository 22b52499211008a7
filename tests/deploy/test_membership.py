"""Clients that join and leave a run for good: m changes between rounds, for the algorithms where that has a meaning."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fedswe.core.algorithm import Job
from fedswe.deploy import InMemoryTransport, Rounds, ServerEndpoint, ledger, verify
from fedswe.deploy.applied_requests import AppliedRequests, require_possible
from fedswe.deploy.backup import backup, restore
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_lines import Change, Entry, Title
from fedswe.deploy.membership import Membership, last_after
from fedswe.deploy.requests import Request, RequestFolder
from fedswe.deploy.rollback import rollback
from fedswe.engine.work import Work, train_one
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate
from fedswe.tasks import CustomTask
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import LOCAL, Network, algorithm, deployment, quadratic


@dataclass(frozen=True)
class Sites(CustomTask):
    """Every client loads its own samples."""

    title: ClassVar[str] = "a task of the tests"

    def network(self):
        return nn.Linear(3, 2)

    def load(self, client):
        random = torch.Generator().manual_seed(client)
        inputs = torch.randn(20, 3, generator=random) + client
        return inputs, (inputs[:, 0] > client).long()


def sites(name, clients, **options):
    return deployment(name, Sites(clients=clients), 12, simulate_absence=False, **{"delivery": "eager", **options})


def contents(run):
    return ledger.read(run / ledger.FILE)


def change(action, t, client):
    return Change(action, t, client)


# the pure part -------------------------------------------------------------------------------------------
def test_members_of_each_round():
    changes = [change("leave", 2, 0), change("evict", 2, 1), change("join", 4, 3), change("leave", 6, 3)]
    membership = Membership(3).after(changes)
    assert [sorted(membership.members(t)) for t in (0, 1, 2, 4, 6)] == [[0, 1, 2], [0, 1, 2], [1, 2], [1, 2, 3], [1, 2]]
    assert [membership.count(t) for t in (1, 3, 5, 9)] == [3, 2, 3, 2]
    assert membership.numbers == 4
    assert membership.begin_at(4) == [changes[2]]


def test_a_client_that_joins_continues_from_the_members_that_were_merged_last():
    assert last_after({0: 3, 1: 5}, change("join", 7, 2)) == {0: 3, 1: 5, 2: 5}
    assert last_after({}, change("join", 7, 2)) == {}
    assert last_after({0: 3, 1: 5}, change("leave", 7, 1)) == {0: 3}


# against loops written by hand ------------------------------------------------------------------------------
class ByHand:
    """FedSWE, FedAvg and FedAvg over all clients, with members that change."""

    def __init__(self, name, problem, members):
        self.name, self.problem, self.members = name, problem, set(members)
        self.x = problem.start
        self.held = dict.fromkeys(members, (problem.start, -1))  # FedSWE: model and round of the last merge

    def trained(self, start, i, t):
        return train_one(Work(self.problem, Job(start), np.array([i]), t, LOCAL)).end

    def round(self, t, active):
        lr, k = 0.8, 2.0
        if self.name == "fedswe":
            total = torch.zeros_like(self.x)
            for i in active:
                x, last = self.held[i]
                total = total + x + lr * (t - last) * (self.trained(x, i, t) - x)
            self.x = (total + k * self.x) / (len(active) + k)
            received = self.x
        else:
            received = self.x
            moves = sum(self.trained(self.x, i, t) - self.x for i in active)
            self.x = self.x + lr * moves / (len(active) if self.name == "fedavg" else len(self.members))
        self.held |= dict.fromkeys(active, (received, t))

    def leave(self, i):
        self.members.remove(i)
        del self.held[i]

    def join(self, i):
        self.members.add(i)
        self.held[i] = max(self.held.values(), key=lambda held: held[1])

    def mean(self):
        return torch.stack([self.held[i][0] for i in sorted(self.members)]).double().mean(0).float()


def assert_same(net, hand):
    torch.testing.assert_close(net.server.server_model(), hand.x, rtol=0, atol=1e-6)
    torch.testing.assert_close(net.server.client_mean(), hand.mean(), rtol=0, atol=1e-6)
    assert net.server.m == len(hand.members)


@pytest.mark.parametrize("delivery", ["eager", "lazy"])
@pytest.mark.parametrize("name", ["fedswe", "fedavg", "fedavg_all"])
def test_joining_and_leaving_equal_a_loop_with_varying_m(scratch, name, delivery):
    net = Network(scratch, sites(name, 3, delivery=delivery))
    hand = ByHand(name, sites(name, 4).problem(), range(3))
    t = 0

    def run(*rounds):
        nonlocal t
        for active in rounds:
            net.round(active)
            hand.round(t, active)
            t += 1
            assert sorted(net.server.committed.merged) == sorted(active)
            assert_same(net, hand)

    run([0, 1, 2], [0, 2], [0, 1])
    net.server.change("leave", 1)
    hand.leave(1)
    run([0, 2], [2])
    assert net.server.jobs([0, 1, 2]).keys() == {0, 2}  # the one that left is not asked, connected or not

    RequestFolder(net.server.directory).submit(Request("join", 3))
    net.server.release()
    net = Network(scratch, sites(name, 4, delivery=delivery))  # the server starts again with a task of four clients
    AppliedRequests(net.server).apply()
    hand.join(3)
    assert_same(net, hand)
    run([0, 3], [2, 3], [0])
    net.restart()
    assert_same(net, hand)
    net.server.change("leave", 0)
    hand.leave(0)
    run([3], [2, 3])
    joined = ledger.read(net.server.directory / ledger.FILE).changes
    assert [(line.action, line.t, line.client) for line in joined] == [("leave", 3, 1), ("join", 5, 3), ("leave", 8, 0)]


def test_a_client_that_joins_does_not_echo_the_rounds_before(scratch):
    net = Network(scratch, sites("fedswe", 2))
    for _ in range(3):
        net.round([0, 1])
    net.round([])
    RequestFolder(net.server.directory).submit(Request("join", 2))
    net.server.release()
    net = Network(scratch, sites("fedswe", 3))
    AppliedRequests(net.server).apply()
    net.round([0, 1, 2])
    assert net.server.committed.merged == {0: 2, 1: 2, 2: 2}


@pytest.mark.parametrize("name", ["fedswe", "fedavg_all", "f3ast"])
def test_a_run_whose_members_change_can_be_verified_taken_back_and_restored(scratch, name):
    joins = name != "f3ast"
    options = {"trail": True, "evaluate": Evaluate(every=1, model=["server", "client_mean", "augmented_mean"])}
    net = Network(scratch, sites(name, 3, **options))
    net.transport = InMemoryTransport(net.deployment, net.server.directory / "clients", net.problem)
    rounds, control = Rounds(net.server, net.transport), RequestFolder(net.server.directory)
    rounds.step()
    rounds.step()
    control.submit(Request("leave", 1))
    rounds.step()
    if joins:
        control.submit(Request("join", 3))
        net.server.release()
        net = Network(scratch, sites(name, 4, **options))
        net.transport = InMemoryTransport(net.deployment, net.server.directory / "clients", net.problem)
        rounds = Rounds(net.server, net.transport)
    rounds.step()
    rounds.step()
    net.server.record_start()
    net.server.release()
    run, members = net.server.directory, {0, 2, 3} if joins else {0, 2}
    assert contents(run).entries[-1].merged.keys() <= members
    found = verify(run)
    assert [failure for part in found.parts for failure in part.failures] == []
    assert found.passed
    assert found.exact

    backup(run, scratch / "run.tar")
    restore(scratch / "run.tar", scratch / "restored")
    assert verify(scratch / "restored").passed
    rollback(run, 3)
    assert verify(run).passed
    after = Membership.of(contents(run)).members(3)
    assert after == members  # who joined and left before round 3 is not taken back
    rollback(run, 1)
    assert Membership.of(contents(run)).members(1) == {0, 1, 2}
    with ServerEndpoint.open(run, sites(name, 3, **options)) as server:
        assert server.m == 3


def test_a_join_waits_for_a_task_of_more_clients(scratch, caplog):
    net = Network(scratch, sites("fedswe", 2))
    net.round()
    RequestFolder(net.server.directory).submit(Request("join", 2))
    operator = AppliedRequests(net.server)
    operator.apply()
    operator.apply()
    assert caplog.text.count("client 2 joins when the server starts with a task of 3 clients") == 1
    assert net.server.m == 2
    net.restart()  # with the old number: the request still waits
    assert RequestFolder(net.server.directory).joining() == 1


def test_more_clients_without_a_join_are_refused(scratch):
    net = Network(scratch, sites("fedswe", 2))
    net.server.release()
    with pytest.raises(FedsweError, match=r"the task has 3 clients, the run in .* 2: .* `fedswe deploy join"):
        Network(scratch, sites("fedswe", 3))
    with pytest.raises(FedsweError, match="number of clients"):
        Network(scratch, sites("fedswe", 1))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_algorithm_says_whether_clients_may_leave(scratch, name):
    simulated = ALGORITHMS[name].needs_probabilities
    net = Network(scratch, quadratic(name, m=3, p=1.0, simulate_absence=simulated))
    net.round()
    if not ALGORITHMS[name].members_change:
        with pytest.raises(FedsweError, match=r"contains the contributions .* `fedswe deploy evict`"):
            require_possible(net.server, "leave", 0)
        assert net.server.m == 3
        return
    net.server.change("leave", 0)
    net.round([1, 2])
    assert net.server.m == 2
    assert 0 not in net.server.committed.merged
    net.restart()
    net.round([1, 2])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_algorithm_says_whether_clients_may_join(scratch, name):
    built = algorithm(name)
    if built.needs_probabilities:
        return
    net = Network(scratch, sites(name, 2))
    net.round([0, 1])
    RequestFolder(net.server.directory).submit(Request("join", 2))
    net.server.release()
    if not (built.members_change and built.home == "client"):
        with pytest.raises(FedsweError, match=r"no client can join: .*start a new run"):
            Network(scratch, sites(name, 3))
        return
    net = Network(scratch, sites(name, 3))
    AppliedRequests(net.server).apply()
    net.round([0, 1, 2])
    assert net.server.committed.merged.keys() == {0, 1, 2}


def test_a_task_that_divides_its_data_takes_no_client(scratch):
    net = Network(scratch, quadratic("fedswe", m=2, simulate_absence=False))
    with pytest.raises(FedsweError, match="divides one data set"):
        require_possible(net.server, "join", 2)
    RequestFolder(net.server.directory).submit(Request("join", 2))
    net.server.release()
    with pytest.raises(FedsweError, match="divides one data set"):
        Network(scratch, quadratic("fedswe", m=3, simulate_absence=False))


def test_simulated_absence_takes_no_client(scratch):
    net = Network(scratch, deployment("fedswe", Sites(clients=2), 4, "eager"))
    with pytest.raises(FedsweError, match="simulated availability"):
        require_possible(net.server, "join", 2)


def test_the_last_clients_that_a_round_needs_cannot_leave(scratch):
    net = Network(scratch, sites("fedswe", 3, min_clients=2))
    net.server.change("leave", 0)
    with pytest.raises(FedsweError, match="client 1 cannot leave: a round needs 2 clients, and 1 others take part"):
        require_possible(net.server, "leave", 1)
    with pytest.raises(FedsweError, match="client 0 is not a member"):
        require_possible(net.server, "evict", 0)


def test_evicted_clients_are_none_of_those_that_a_round_needs(scratch):
    net = Network(scratch, sites("fedswe", 3, min_clients=2))
    net.server.change("evict", 0)
    with pytest.raises(FedsweError, match="client 1 cannot leave: a round needs 2 clients, and 1 others take part"):
        require_possible(net.server, "leave", 1)


def test_a_client_that_leaves_is_not_evicted_any_more(scratch):
    net = Network(scratch, sites("fedswe", 3))
    net.server.change("evict", 1)
    net.server.change("leave", 1)
    assert net.server.evicted == contents(net.server.directory).evicted == set()


def test_an_eviction_is_forgotten_if_the_join_is_taken_back():
    found = Contents(Title("run", "plan", "start", 2))
    for line in (
        Entry(0, {}, "", ""),
        Change("evict", 1, 0),
        Change("join", 1, 2),
        Entry(1, {}, "", ""),
        Change("evict", 2, 2),
        Change("evict", 2, 1),
    ):
        found.add(line)
    assert found.evicted == {0, 1, 2}
    found.add(Change("rollback", 0))
    assert found.evicted == {0, 1}
    found.add(Entry(0, {}, "", ""))
    found.add(Change("join", 1, 2))  # another client with the same number
    assert found.evicted == {0, 1}
    assert Membership.of(found).members(1) == {0, 1, 2}


def test_joins_in_a_ledger_are_in_order(scratch):
    net = Network(scratch, sites("fedswe", 2))
    net.server.record(Change("join", 0, 7))
    with pytest.raises(FedsweError, match="a client joins out of order"):
        ledger.read(net.server.directory / ledger.FILE)


def test_taking_rounds_back_takes_back_who_joined_and_left_since(scratch):
    contents = ledger.Contents(Title("run", "plan", "start", 2))
    for t in range(3):
        contents.add(Entry(t, {0: t - 1}, "", ""))
    contents.add(Change("pause", 3))
    contents.add(Change("join", 3, 2))
    contents.add(Change("evict", 3, 1))
    assert Membership.of(contents).count(3) == 3
    contents.add(Change("rollback", 2))
    assert Membership.of(contents).count(2) == 2
    assert contents.paused
    assert contents.evicted == {1}  # what it did may be why the rounds were taken back


def test_the_deployment_of_the_client_that_joins_is_the_same(scratch):
    assert sites("fedswe", 2).digest() == sites("fedswe", 3).digest()
    assert replace(sites("fedswe", 2), metrics_port=9).digest() == sites("fedswe", 3).digest()
