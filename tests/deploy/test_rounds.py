"""Rounds over a transport: quorum, deadline, failures, reconnects, and the evaluation of a simulated run."""

import math
import time
from dataclasses import replace

import pytest
import torch

import fedswe
from fedswe.deploy import InMemoryTransport, Packet, Rounds, ServerEndpoint, ledger, run_in_memory, verify
from fedswe.deploy.evaluation import HISTORY
from fedswe.deploy.log_file import LOG
from fedswe.deploy.server_files import ServerFiles
from fedswe.deploy.transport import Arrival
from fedswe.experiment.experiment import Evaluate
from fedswe.results.history import History
from fedswe.results.model_file import Models
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import Network, digits, quadratic

AVERAGES = ["ema", "ema:0.9:of=client_mean", "ema:correct_bias=true", "window:4", "window:3:of=client_mean"]
EVERYTHING = Evaluate(
    every=3, model=["server", "client_mean", "augmented_mean", *AVERAGES], ema_decay=0.5, tail=4, tail_every=1
)


def entries(folder):
    return ledger.read(folder / ledger.FILE).entries


def saved_models(folder):
    return Models.read(folder / "model.safetensors").vectors


def ema_of(folder, decay=0.5):
    """The exponential average over the copies of all server models."""
    files = ServerFiles(folder, ledger.read(folder / ledger.FILE).entries)
    ema = files.start(torch.zeros(1))
    for t in range(len(entries(folder))):
        ema = torch.lerp(files.trail(t + 1), ema, decay)
    return ema


def served(folder, transport_type, deployment, *args):
    """Run a deployment over a transport of the test; returns the transport."""
    problem = deployment.problem()
    with ServerEndpoint.open(folder, deployment, problem) as server:
        transport = transport_type(deployment, folder / "clients", problem, *args)
        Rounds(server, transport).run()
    return transport


# evaluation ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ALGORITHMS)
def test_history_and_models_are_those_of_a_simulated_run(scratch, name):
    deployment = digits(name, rounds=10, m=4, evaluate=EVERYTHING)
    history = run_in_memory(deployment, scratch / "deployed")
    simulated = fedswe.run(deployment.experiment, scratch / "simulated").history
    assert [row["round"] for row in history.rows] == [0, 3, 6, 7, 8, 9, 10]
    assert history.columns == simulated.columns
    for row, expected in zip(history.rows, simulated.rows, strict=True):
        exact = {column: expected[column] for column in ("round", "available", "reported", "echo_mean", "echo_max")}
        assert {column: row[column] for column in exact} == exact
        for column in expected.keys() - exact.keys() - {"seconds"}:
            assert row[column] == pytest.approx(expected[column], abs=1e-6), column
    assert History.from_csv((scratch / "deployed" / HISTORY).read_text()) == history
    models, final = saved_models(scratch / "deployed"), saved_models(scratch / "simulated")
    assert models.keys() == final.keys() == EVERYTHING.outputs().keys()
    for model, x in models.items():
        torch.testing.assert_close(x, final[model], rtol=0, atol=1e-6)


def test_a_restart_changes_neither_the_history_nor_the_average_over_rounds(scratch):
    deployment = quadratic("fedswe", evaluate=EVERYTHING, trail=True)
    straight = run_in_memory(deployment, scratch / "straight")
    net = Network(scratch / "restarted", deployment)
    while not net.server.finished:
        Rounds(net.server, net.transport).step()
        net.ask()  # the next round is open when the server is restarted
        net.restart()
    again = History.from_csv((scratch / "restarted" / "server" / HISTORY).read_text())
    assert [drop(row) for row in again.rows] == [drop(row) for row in straight.rows]
    models, restarted = saved_models(scratch / "straight"), saved_models(scratch / "restarted" / "server")
    assert all(torch.equal(x, restarted[name]) for name, x in models.items())
    assert torch.equal(models["ema"], ema_of(scratch / "straight"))
    assert [path.name for path in (scratch / "restarted" / "server" / "outputs").iterdir()] == ["12.safetensors"]


def drop(row):
    return {name: value for name, value in row.items() if name != "seconds"}


def test_an_evaluation_lost_in_a_crash_is_made_up_for(scratch):
    deployment = quadratic("fedswe", evaluate=replace(EVERYTHING, tail=0))
    net = Network(scratch, deployment)
    for _ in range(3):
        net.round()  # without Rounds: nothing is evaluated
    net.restart()
    history = Rounds(net.server, net.transport).evaluation.history
    assert [row["round"] for row in history.rows] == [3]
    merged = [t - since for t, entry in enumerate(entries(scratch / "server")) for since in entry.merged.values()]
    assert history.last["echo_mean"] == sum(merged) / len(merged)
    assert history.last["echo_max"] == max(merged)


def test_other_models_may_be_evaluated_after_a_restart(scratch, caplog):
    deployment = quadratic("fedswe", evaluate=Evaluate(every=1, model=["server"]), rounds=4)
    net = Network(scratch, deployment)
    Rounds(net.server, net.transport).step()
    net.restart(quadratic("fedswe", evaluate=Evaluate(every=1, model=["client_mean", "ema"]), rounds=4))
    assert "round 1: no earlier state of ema is stored: its average begins here" in caplog.text
    history = net.finish()
    assert "server_train_loss" not in history.columns
    assert [math.isnan(value) for value in history["client_mean_train_loss"]] == [True, True, False, False, False]
    assert list(history["round"]) == [0, 1, 2, 3, 4]
    assert saved_models(scratch / "server").keys() == {"client_mean", "ema"}


@pytest.mark.parametrize("content", [None, b"round\nx\n", b"loss\n1\n", b"round,seconds\n1\n", b"\xff"])
def test_a_lost_or_damaged_history_is_rebuilt_from_the_ledger(scratch, content):
    net = Network(scratch, quadratic("fedswe", evaluate=EVERYTHING))
    history, path = net.finish(), scratch / "server" / HISTORY
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    net.restart()
    assert Rounds(net.server, net.transport).run() == history
    assert History.from_csv(path.read_text()) == history


# clients that are absent, fail, leave and return ------------------------------------------------------------
def present(m, **options):
    return quadratic("fedswe", m=m, simulate_absence=False, evaluate=Evaluate(every=1), **options)


class Scripted(InMemoryTransport):
    """Before round t, `script[t]` (a set of clients) comes online; without an entry nothing changes."""

    def __init__(self, deployment, directory, problem, script):
        super().__init__(deployment, directory, problem)
        self._script = script

    def send(self, kind, round, packets):
        super().send(kind, round, packets)
        if kind == "delivery" and round + 1 in self._script:
            self.online = self._script[round + 1]


def test_clients_leave_and_return(scratch):
    deployment = present(3, rounds=6)
    served(scratch, Scripted, deployment, {1: {0, 1}, 3: {0}, 5: {0, 1, 2}})
    assert [set(entry.merged) for entry in entries(scratch)] == [{0, 1, 2}, {0, 1}, {0, 1}, {0}, {0}, {0, 1, 2}]
    assert entries(scratch)[5].merged == {0: 4, 1: 2, 2: 0}
    assert [entry.available for entry in entries(scratch)] == [3, 2, 2, 1, 1, 3]
    assert verify(scratch).exact


def test_a_round_waits_for_its_quorum(scratch):
    class Late(InMemoryTransport):
        polls = 0

        def connected(self):
            return super().connected() if self.polls >= 3 else {0: 0}

        def poll(self, timeout):
            self.polls += 1
            return super().poll(timeout)

    served(scratch, Late, present(2, rounds=1, min_clients=2))
    assert set(entries(scratch)[0].merged) == {0, 1}


class Failing(InMemoryTransport):
    """Client 1 does not answer jobs: it fails at once, or it is silent."""

    failure = None

    def poll(self, timeout):
        for arrival in super().poll(timeout):
            if (arrival.client, arrival.kind) != (1, "job"):
                yield arrival
            elif self.failure is not None:
                yield Arrival(1, "job", arrival.round, None, self.failure)


def test_a_failed_client_is_not_waited_for(scratch):
    class Broken(Failing):
        failure = "out of memory"

    began = time.monotonic()
    served(scratch, Broken, present(2, rounds=3, deadline=30.0))
    assert time.monotonic() - began < 20
    assert [set(entry.merged) for entry in entries(scratch)] == [{0}] * 3
    assert (scratch / LOG).read_text().count("client 1 failed: out of memory") == 3


def test_a_silent_client_is_waited_for_until_the_deadline(scratch):
    began = time.monotonic()
    served(scratch, Failing, present(2, rounds=2, deadline=0.6))
    assert time.monotonic() - began >= 1.2
    assert [set(entry.merged) for entry in entries(scratch)] == [{0}] * 2
    assert "round 1: client 1 did not answer within 0.6 s" in (scratch / LOG).read_text()


def test_a_client_that_was_silent_twice_is_asked_but_not_waited_for(scratch):
    class Returning(Failing):
        """Client 1 answers again from round 4 on."""

        jobs = 0

        def send(self, kind, round, packets):
            self.jobs += kind == "job" and 1 in packets
            super().send(kind, round, packets)

        def poll(self, timeout):
            for arrival in InMemoryTransport.poll(self, timeout):
                if (arrival.client, arrival.kind) != (1, "job") or arrival.round >= 4:
                    yield arrival

    began = time.monotonic()
    transport = served(scratch, Returning, present(2, rounds=6, deadline=1.5))
    assert time.monotonic() - began >= 3.0
    assert transport.jobs == 6
    assert [set(entry.merged) for entry in entries(scratch)] == [{0}] * 4 + [{0, 1}] * 2
    said = (scratch / LOG).read_text()
    assert said.count("did not answer within 1.5 s") == 2
    assert said.count("round 1: client 1 did not answer within 1.5 s; from now on it is asked, but not waited for") == 1


def test_a_client_that_only_asks_for_its_base_is_silent(scratch):
    class Asking(InMemoryTransport):
        """Client 1 asks for its base, and does not answer the job that has it."""

        asked = -1

        def poll(self, timeout):
            for arrival in super().poll(timeout):
                if (arrival.client, arrival.kind) != (1, "job"):
                    yield arrival
                elif arrival.round > self.asked:
                    self.asked = arrival.round
                    header = Packet.from_bytes(arrival.packet).header
                    yield replace(arrival, packet=Packet("need_state", header).to_bytes())

    served(scratch, Asking, present(2, rounds=6, deadline=0.6))
    assert [set(entry.merged) for entry in entries(scratch)] == [{0}] * 6
    said = (scratch / LOG).read_text()
    assert said.count("client 1 did not answer within 0.6 s") == 2
    assert "from now on it is asked, but not waited for" in said


def test_a_client_that_never_acknowledges_is_waited_for_twice(scratch):
    class Unthankful(InMemoryTransport):
        """Client 1 reports, and acknowledges no delivery before round 5."""

        waited, delivered = 0, 0

        def send(self, kind, round, packets):
            self.delivered += kind == "delivery" and 1 in packets
            super().send(kind, round, packets)

        def poll(self, timeout):
            for arrival in super().poll(timeout):
                if (arrival.client, arrival.kind) != (1, "delivery") or arrival.round >= 5:
                    yield arrival

    began = time.monotonic()
    transport = served(scratch, Unthankful, present(2, rounds=8, deadline=5.0))
    assert 10 <= time.monotonic() - began < 25  # with a wait in each of five rounds, it would be more than 25 s
    assert transport.delivered == 8
    assert [set(entry.merged) for entry in entries(scratch)] == [{0, 1}] * 8
    said = (scratch / LOG).read_text()
    assert said.count("client 1 did not acknowledge its delivery within 5 s") == 2
    assert said.count("round 1: client 1 did not acknowledge its delivery within 5 s; from now on it gets") == 1


def test_a_round_in_which_all_clients_are_silent_lasts_its_deadline(scratch):
    class Mute(InMemoryTransport):
        def poll(self, timeout):
            list(super().poll(timeout))
            return iter(())

    began = time.monotonic()
    served(scratch, Mute, present(2, rounds=4, deadline=0.3))
    assert time.monotonic() - began >= 1.2


def test_a_round_closes_with_enough_reports(scratch):
    class Slow(InMemoryTransport):
        """Client 2 answers each job one poll after the others."""

        def __init__(self, *args):
            super().__init__(*args)
            self._late = []

        def poll(self, timeout):
            yield from self._late
            self._late = []
            for arrival in super().poll(0.0):
                if (arrival.client, arrival.kind) == (2, "job"):
                    self._late.append(arrival)
                else:
                    yield arrival

    began = time.monotonic()
    served(scratch, Slow, present(3, rounds=3, min_reports=2, deadline=60.0))
    assert time.monotonic() - began < 50
    assert {0, 1} == set(entries(scratch)[0].merged)
    assert any(entry.rejected.get(2) == {"round": 1} for entry in entries(scratch))
    assert verify(scratch).exact


def test_an_empty_round_lasts_its_deadline(scratch):
    class Empty(InMemoryTransport):
        def connected(self):
            return {}

    began = time.monotonic()
    served(scratch, Empty, present(2, rounds=2, min_clients=0, deadline=0.4))
    assert time.monotonic() - began >= 0.8
    assert [(entry.merged, entry.available) for entry in entries(scratch)] == [({}, 0), ({}, 0)]


def test_a_client_that_reconnects_is_asked_again_in_the_same_round(scratch):
    class Restarting(InMemoryTransport):
        """Client 1 loses its first job of round 1, and is connected anew at the third poll after that."""

        lost, polls = 0, 0

        def connected(self):
            return {0: 0, 1: int(self.lost > 0 and self.polls >= 3)}

        def send(self, kind, round, packets):
            if (kind, round) == ("job", 1) and 1 in packets and not self.lost:
                self.lost += 1
                packets = {client: packet for client, packet in packets.items() if client != 1}
            super().send(kind, round, packets)

        def poll(self, timeout):
            self.polls += self.lost
            return super().poll(timeout)

    began = time.monotonic()
    transport = served(scratch, Restarting, present(2, rounds=3, deadline=30.0))
    assert transport.lost == 1
    assert [set(entry.merged) for entry in entries(scratch)] == [{0, 1}] * 3
    assert time.monotonic() - began < 20


def test_answers_that_come_a_round_late_or_twice_or_from_nobody_do_no_harm(scratch):
    class Confused(InMemoryTransport):
        """Client 1 answers each job in the next round, and all answers come twice and also from client 7."""

        def __init__(self, *args):
            super().__init__(*args)
            self._late = []

        def poll(self, timeout):
            late, self._late = self._late, []
            for arrival in super().poll(timeout):
                if (arrival.client, arrival.kind) == (1, "job"):
                    self._late.append(arrival)
                    continue
                yield from (arrival, arrival, replace(arrival, client=7))
            yield from (arrival for arrival in late if arrival.round < len(entries(scratch)))
            self._late += [arrival for arrival in late if arrival.round == len(entries(scratch))]

    served(scratch, Confused, present(2, rounds=3, deadline=0.5))
    assert [set(entry.merged) for entry in entries(scratch)] == [{0}] * 3
    assert entries(scratch)[1].rejected[1] == {"round": 1}
    assert entries(scratch)[1].rejected[0]["duplicate"] >= 1
    assert entries(scratch)[1].rejected[-1]["client"] >= 1
    assert verify(scratch).exact


def test_the_log_file_is_closed_and_the_directory_unlocked_when_a_transport_raises(scratch):
    class Exploding(InMemoryTransport):
        def poll(self, timeout):
            raise RuntimeError("network card on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        served(scratch, Exploding, present(2, rounds=2))
    assert run_in_memory(present(2, rounds=2), scratch).last["round"] == 2
