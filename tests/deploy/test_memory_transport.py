"""A deployment in one process: it resumes, it can be verified, and a task that raises is a client that fails."""

import json

import pytest
import torch

from fedswe.deploy import InMemoryTransport, Rounds, ServerEndpoint, ledger, run_in_memory, verify
from tests.deploy.parts import quadratic


@pytest.mark.parametrize("delivery", ["eager", "lazy"])
def test_run_resume_and_verify(scratch, delivery):
    straight = run_in_memory(quadratic("fedswe", rounds=8, delivery=delivery), scratch / "straight")
    run_in_memory(quadratic("fedswe", rounds=3, delivery=delivery), scratch / "resumed")
    resumed = run_in_memory(quadratic("fedswe", rounds=8, delivery=delivery), scratch / "resumed")
    assert resumed.last["server_train_loss"] == straight.last["server_train_loss"]
    found = [
        [(entry.merged, entry.model) for entry in ledger.read(scratch / name / ledger.FILE).entries]
        for name in ("straight", "resumed")
    ]
    assert found[0] == found[1]
    assert verify(scratch / "resumed").exact
    assert "command" not in json.loads((scratch / "resumed" / "run.json").read_text())
    stored = [path.name for path in (scratch / "straight" / "clients").iterdir()]
    assert bool(stored) == (delivery == "eager")


def test_a_client_whose_task_raises_declines(scratch, caplog):
    deployment = quadratic("fedavg", rounds=2, m=3, simulate_absence=False)
    problem = deployment.problem()
    gradient = problem.gradient

    def failing(x, batch, precision):
        if failing.client == 1:
            raise KeyError("no such column")
        return gradient(x, batch, precision)

    problem.gradient = failing
    with ServerEndpoint.open(scratch, deployment, problem) as server:
        transport = InMemoryTransport(deployment, scratch / "clients", problem)
        for number, client in transport.clients.items():
            handle = client.handle

            def counted(data, number=number, handle=handle):
                failing.client = number
                return handle(data)

            client.handle = counted
        Rounds(server, transport).run()
    assert [set(entry.merged) for entry in ledger.read(scratch / ledger.FILE).entries] == [{0, 2}] * 2
    assert "round 1: client 1 declines: KeyError: 'no such column'" in caplog.text
    assert "in failing" in caplog.text  # the traceback, for the author of the task


def test_messages_to_offline_clients_are_lost(scratch):
    deployment = quadratic("fedavg", m=2, simulate_absence=False)
    transport = InMemoryTransport(deployment, scratch)
    with ServerEndpoint.open(scratch / "server", deployment) as server:
        transport.send("job", 0, server.jobs([0, 1]))
        transport.online.discard(1)
        assert transport.connected() == {0: 0}
        (arrival,) = transport.poll(0.0)
        assert (arrival.client, arrival.kind, arrival.round, arrival.failure) == (0, "job", 0, "")
        assert list(transport.poll(0.0)) == []
        assert server.receive(0, arrival.packet) is None
        server.close()
        assert set(server.committed.merged) == {0}
        assert torch.isfinite(server.server_model()).all()
