"""The Flower apps hold the rounds of every algorithm, as the simulator does; clients come, go and fail."""

import io
import time
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import torch
from flwr.app import Array, ArrayRecord, Context, RecordDict
from flwr.proto.node_pb2 import NodeInfo

from fedswe.deploy import ledger
from fedswe.deploy.audit.verify import verify
from fedswe.deploy.deployment import FILE
from fedswe.deploy.flower import client_app, server_app
from fedswe.deploy.flower.app_template import write_app
from fedswe.deploy.flower.node_keys import canonical_key
from fedswe.deploy.flower.transport import Nodes
from fedswe.deploy.packet import Packet
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import assemble
from fedswe.results.history import History
from fedswe.results.model_file import Models
from tests.deploy.grid import LocalGrid
from tests.deploy.parts import DELIVERED, digits, quadratic


def serve(folder, deployment, clients, mods=None, grid=None):
    """Run a deployment's apps to the end; the entries of its ledger."""
    (folder / FILE).write_text(deployment.dump())
    config = settings(folder)
    grid = grid or LocalGrid(client_app(folder, mods), config, clients)
    serve_with(folder, grid, config)
    return ledger.read(folder / "run" / ledger.FILE).entries


@pytest.mark.parametrize(("name", "delivery"), DELIVERED)
def test_every_algorithm_retraces_the_simulator(tmp_path, name, delivery):
    deployment = digits(name, rounds=5, m=4, delivery=delivery, min_clients=4)
    entries = serve(tmp_path, deployment, clients=4)
    engine = assemble(replace(deployment.experiment, engine="batched"))
    reported = [engine.step().reported for _ in entries]
    assert [len(entry.merged) for entry in entries] == reported
    assert 0 < sum(reported) < 20
    models = Models.read(tmp_path / "run" / "model.safetensors").vectors
    for model, expected in (("server", engine.server_model()), ("client_mean", engine.client_mean())):
        np.testing.assert_allclose(models[model].numpy(), expected.numpy(), rtol=0, atol=1e-6)
    assert verify(tmp_path / "run").exact


def test_history_is_that_of_the_simulator(tmp_path):
    deployment = digits("fedswe", rounds=4, m=4, min_clients=4)
    deployment = replace(
        deployment, experiment=replace(deployment.experiment, evaluate=replace(deployment.experiment.evaluate, every=2))
    )
    serve(tmp_path, deployment, clients=4)
    engine = assemble(deployment.experiment)
    history = History.from_csv((tmp_path / "run" / "history.csv").read_text())
    assert [row["round"] for row in history.rows] == [0, 2, 4]
    for row in history.rows:
        while engine.t < row["round"]:
            engine.step()
        for name, x in (("server", engine.server_model()), ("client_mean", engine.client_mean())):
            scores = engine.problem.evaluate(x)
            assert row[f"{name}_test_accuracy"] == scores["test_accuracy"]
            assert row[f"{name}_train_loss"] == pytest.approx(scores["train_loss"], abs=1e-6)


class Deaf(LocalGrid):
    """After so many messages node 1001 says nothing any more, but stays online, as a killed SuperNode does."""

    def __init__(self, *args, after, returns_as=None):
        super().__init__(*args)
        self._after, self._returns_as = after, returns_as

    def pull_messages(self, message_ids):
        if self.sent <= self._after:
            return super().pull_messages(message_ids)
        if self._returns_as is not None:
            self.online[self._returns_as] = 1
        lost = {name for name, m in self._waiting.items() if m.metadata.dst_node_id == 1001}
        return super().pull_messages([name for name in message_ids if name not in lost])


def settings(folder, **more):
    return {"run-dir": str(folder / "run"), "state-dir": str(folder / "clients"), "overrides": "", **more}


@pytest.mark.parametrize("after", [8, 11])  # it dies before its delivery, or while it trains
def test_a_node_that_returns_under_another_name_is_asked_again_in_the_same_round(tmp_path, after):
    """Without authentication a restarted SuperNode has a new id, and its ghost stays online for a while."""
    deployment = quadratic("fedswe", rounds=3, m=3, simulate_absence=False, min_clients=3, deadline=20.0)
    grid = Deaf(client_app(tmp_path), settings(tmp_path), 3, after=after, returns_as=2000)
    entries = serve(tmp_path, deployment, 3, grid=grid)
    assert [set(entry.merged) for entry in entries] == [{0, 1, 2}] * 3
    history = History.from_csv((tmp_path / "run" / "history.csv").read_text())
    assert history.last["seconds"] < 20  # no round waited for the ghost
    assert verify(tmp_path / "run").exact


def test_clients_that_fail_are_absent_and_named_in_the_log(tmp_path):
    def broken(message, context, call_next):
        if context.node_config["partition-id"] == 2 and message.metadata.message_type == "train":
            raise RuntimeError("out of memory")
        return call_next(message, context)

    deployment = quadratic("fedswe", rounds=3, m=3, simulate_absence=False, min_clients=3)
    entries = serve(tmp_path, deployment, 3, mods=[broken])
    assert [set(entry.merged) for entry in entries] == [{0, 1}] * 3
    assert "client 2 failed" in (tmp_path / "run" / "server.log").read_text()
    assert "out of memory" in (tmp_path / "run" / "server.log").read_text()


def forged(message, change):
    """A client's answer with its packet changed."""
    data = message.content.array_records["packet"].to_numpy_ndarrays()[0].tobytes()
    data = change(data)
    message.content.array_records["packet"] = ArrayRecord([np.frombuffer(data, dtype=np.uint8)])
    return message


def test_lies_are_rejected_and_the_liar_can_come_back(tmp_path):
    earlier = []

    def nan(data):
        packet = Packet.from_bytes(data)
        arrays = {name: torch.full_like(value, torch.nan) for name, value in packet.arrays.items()}
        return Packet(packet.kind, packet.header, arrays).to_bytes()

    def other_round(data):
        packet = Packet.from_bytes(data)
        return Packet(packet.kind, {**packet.header, "round": 17}, packet.arrays).to_bytes()

    def other_client(data):
        packet = Packet.from_bytes(data)
        return Packet(packet.kind, {**packet.header, "client": 0}, packet.arrays).to_bytes()

    lies = [nan, other_round, other_client, lambda data: data, lambda data: earlier[3], lambda data: data[:-5]]

    def liar(message, context, call_next):
        reply = call_next(message, context)
        if context.node_config["partition-id"] != 2 or message.metadata.message_type != "train":
            return reply
        earlier.append(reply.content.array_records["packet"].to_numpy_ndarrays()[0].tobytes())
        turn = len(earlier) - 1
        return forged(reply, lies[turn]) if turn < len(lies) else reply

    deployment = quadratic("fedswe", rounds=8, m=3, simulate_absence=False, min_clients=3)
    entries = serve(tmp_path, deployment, 3, mods=[liar])
    reasons = [list(entry.rejected.get(2, {})) for entry in entries]
    assert reasons == [["not finite"], ["round"], ["client"], [], ["round"], ["malformed"], [], []]
    assert [2 in entry.merged for entry in entries] == [False, False, False, True, False, False, True, True]
    assert entries[6].merged[2] == 3  # what it did meanwhile was never counted
    assert verify(tmp_path / "run").exact


def archive():
    file = io.BytesIO()
    np.savez(file, x=np.zeros(2))
    return file.getvalue()


def larger_than_memory():
    head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999,), }\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head


@pytest.mark.parametrize("data", [None, b"", b"PK\x03\x04", archive(), larger_than_memory()], ids=range(5))
def test_a_message_without_a_packet_is_rejected(tmp_path, data):
    def silent(message, context, call_next):
        reply = call_next(message, context)
        if context.node_config["partition-id"] == 0 and message.metadata.message_type == "train":
            reply.content.array_records.clear()
            if data is not None:  # not what numpy writes, though it says so
                reply.content["packet"] = ArrayRecord({"0": Array("uint8", (3,), "numpy.ndarray", data)})
        return reply

    deployment = quadratic("fedavg", rounds=2, m=2, simulate_absence=False, min_clients=2)
    entries = serve(tmp_path, deployment, 2, mods=[silent])
    assert [set(entry.merged) for entry in entries] == [{1}, {1}]
    assert entries[0].rejected == {0: {"malformed": 1}}


def test_an_empty_round_lasts_its_deadline(tmp_path):
    deployment = quadratic("fedswe", rounds=2, m=2, simulate_absence=False, min_clients=0, deadline=0.5)
    entries = serve(tmp_path, deployment, 0)
    history = History.from_csv((tmp_path / "run" / "history.csv").read_text())
    assert [entry.merged for entry in entries] == [{}, {}]
    assert history.last["seconds"] >= 1.0


def test_a_silent_client_is_waited_for_until_the_deadline(tmp_path):
    deployment = quadratic("fedavg", rounds=2, m=2, simulate_absence=False, min_clients=2, deadline=1.0)
    grid = Deaf(client_app(tmp_path), settings(tmp_path), 2, after=4)
    entries = serve(tmp_path, deployment, 2, grid=grid)
    assert [set(entry.merged) for entry in entries] == [{0, 1}, {0}]
    history = History.from_csv((tmp_path / "run" / "history.csv").read_text())
    assert history.last["seconds"] >= 1.0
    said = (tmp_path / "run" / "server.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in said] == ["round 1: client 1 did not answer within 1 s"]


class Slow(LocalGrid):
    """Answers to a node's first, second, ... job take so many seconds."""

    def __init__(self, *args, seconds):
        super().__init__(*args)
        self._seconds, self._jobs, self._due = seconds, Counter(), {}

    def push_messages(self, messages):
        messages = list(messages)
        names = super().push_messages(messages)
        for name, message in zip(names, messages, strict=True):
            node = message.metadata.dst_node_id
            if message.metadata.message_type == "train":
                self._due[name] = time.monotonic() + self._seconds.get((node, self._jobs[node]), 0.0)
                self._jobs[node] += 1
        return names

    def pull_messages(self, message_ids):
        return super().pull_messages([n for n in message_ids if self._due.get(n, 0.0) <= time.monotonic()])


def test_a_late_report_is_rejected_and_does_not_end_the_next_round(tmp_path):
    """Node 1001 joins in the middle of round 0 and answers in the middle of round 1, where it has a job as well."""
    deployment = quadratic("fedavg", rounds=2, m=3, simulate_absence=False, min_clients=2, deadline=3.0)
    seconds = {(1002, 0): 60.0, (1001, 0): 2.0, (1000, 1): 1.9, (1002, 1): 1.9, (1001, 1): 2.4}
    grid = Slow(client_app(tmp_path), settings(tmp_path), 3, seconds=seconds)
    joins = time.monotonic() + 1.5
    everybody = dict(grid.online)
    grid.get_nodes = lambda: [NodeInfo(node_id=n) for n in everybody if n != 1001 or time.monotonic() > joins]
    entries = serve(tmp_path, deployment, 3, grid=grid)
    assert [set(entry.merged) for entry in entries] == [{0}, {0, 1, 2}]
    assert entries[1].rejected == {1: {"round": 1}}


def test_a_question_that_got_lost_is_asked_again(tmp_path):
    class Forgetful(LocalGrid):
        def push_messages(self, messages):
            lost = self.sent == 0
            names = super().push_messages(messages)
            if lost:
                self._waiting.clear()
            return names

    deployment = quadratic("fedavg", rounds=1, m=2, simulate_absence=False, min_clients=2, deadline=1.0)
    entries = serve(tmp_path, deployment, 2, grid=Forgetful(client_app(tmp_path), settings(tmp_path), 2))
    assert set(entries[0].merged) == {0, 1}


@pytest.mark.parametrize("names", [[""], [None], []])  # what Flower's grids give for a message they do not take
def test_a_message_that_flower_does_not_take_is_a_failure_at_once(tmp_path, names):
    class Choosy(LocalGrid):
        pushed = 0

        def push_messages(self, messages):
            self.pushed += 1  # the first asks node 1000 who it is
            about = messages[0].metadata
            refused = self.pushed == 1 or (about.message_type, about.dst_node_id) == ("train", 1001)
            return names if refused else super().push_messages(messages)

    deployment = quadratic("fedavg", rounds=2, m=2, simulate_absence=False, min_clients=2, deadline=30.0)
    entries = serve(tmp_path, deployment, 2, grid=Choosy(client_app(tmp_path), settings(tmp_path), 2))
    assert [set(entry.merged) for entry in entries] == [{0}, {0}]
    assert "client 1 failed: Flower did not take the message" in (tmp_path / "run" / "server.log").read_text()
    history = History.from_csv((tmp_path / "run" / "history.csv").read_text())
    assert history.last["seconds"] < 20  # nobody waited for what was never sent


def test_a_node_that_is_no_client_is_named_in_the_log_once(tmp_path):
    deployment = quadratic("fedavg", rounds=3, m=2, simulate_absence=False, min_clients=2)
    grid = LocalGrid(client_app(tmp_path), settings(tmp_path), 2)
    grid.online |= {2000: 7, 2001: "zero"}  # their partition-id
    grid.get_nodes = lambda: [NodeInfo(node_id=node) for node in sorted(grid.online, reverse=True)]
    entries = serve(tmp_path, deployment, 2, grid=grid)
    assert [set(entry.merged) for entry in entries] == [{0, 1}] * 3
    said = (tmp_path / "run" / "server.log").read_text()
    assert said.count("node 2000 says it is client 7 of 2") == 1
    assert said.count("node 2001 does not say which client it is") == 1
    assert "partition-id is missing" in said


def test_with_keys_a_node_is_who_its_key_says(tmp_path):
    write_app(tmp_path / "app", 3, tls=True)
    lines = tomllib.loads((tmp_path / "app" / "clients.toml").read_text())["keys"]
    keys = [canonical_key(line) for line in lines]
    nodes = Nodes.of_app(tmp_path / "app", 3)
    online = [NodeInfo(node_id=7, public_key=keys[2]), NodeInfo(node_id=8, public_key=b"a stranger's")]
    assert nodes.update(online) == []
    nodes.identify(7, 0)  # whatever it claims
    nodes.identify(8, 1)
    assert nodes.connected() == {2: 7}
    with pytest.raises(FedsweError, match="3 keys for 4 clients"):
        Nodes.of_app(tmp_path / "app", 4)
    for wrong, complaint in (
        ({"keys": [lines[0], lines[1], lines[0]]}, "the same key twice"),
        ({"keys": [*lines[:2], "ssh-none AAAA"]}, "'ssh-none AAAA'... is not an OpenSSH public key"),
        ({"keys": 3}, "must be a list"),
        ({"key": lines}, "a list called keys"),
    ):
        (tmp_path / "app" / "clients.toml").write_text(tomli_w.dumps(wrong))
        with pytest.raises(FedsweError, match=complaint):
            Nodes.of_app(tmp_path / "app", 3)


def test_nodes_without_keys_are_asked_once_and_believed_in_range():
    nodes = Nodes(2, None)
    both = [NodeInfo(node_id=7), NodeInfo(node_id=8)]
    assert nodes.update(both) == [7, 8]
    assert nodes.update(both) == []
    for answer in (5, -1, "0", None):
        nodes.identify(7, answer)
        assert nodes.connected() == {}
    nodes.identify(7, 1)
    nodes.identify(8, 1)
    assert nodes.connected() == {1: 8}  # the last to claim a number has it
    nodes.update(both[:1])
    assert nodes.connected() == {1: 7}
    nodes.ask_again(8)
    assert nodes.update(both) == []  # it has told already


@pytest.mark.parametrize("key", ["run-dir", "state-dir"])
def test_missing_folders_are_asked_for(tmp_path, key):
    deployment = quadratic("fedavg", rounds=1, m=2, simulate_absence=False, min_clients=2)
    (tmp_path / FILE).write_text(deployment.dump())
    config = settings(tmp_path, **{key: ""})
    grid = LocalGrid(client_app(tmp_path), config, 2)
    if key == "run-dir":
        with pytest.raises(FedsweError, match="run-dir is missing"):
            serve_with(tmp_path, grid, config)
    else:
        serve_with(tmp_path, grid, config)
        assert "state-dir is missing" in (tmp_path / "run" / "server.log").read_text()


def serve_with(folder, grid, config):
    Path(folder / "run").mkdir()
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    server_app(folder)(grid, context)


def test_overrides_reach_both_ends(tmp_path):
    deployment = quadratic("fedswe", rounds=9, m=2, simulate_absence=False, min_clients=2)
    (tmp_path / FILE).write_text(deployment.dump())
    words = "rounds=2 local.steps=1 algorithm.k=7"
    config = settings(tmp_path, overrides=words)
    serve_with(tmp_path, LocalGrid(client_app(tmp_path), config, 2), config)
    kept = tomllib.loads((tmp_path / "run" / FILE).read_text())
    assert (kept["rounds"], kept["local"]["steps"], kept["algorithm"]["k"]) == (2, 1, 7.0)
    assert [set(entry.merged) for entry in ledger.read(tmp_path / "run" / ledger.FILE).entries] == [{0, 1}] * 2
