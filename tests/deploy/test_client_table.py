"""The client mean of a deployment: its definition, and how many models it reads."""

from collections import Counter

import pytest
import torch

from fedswe.deploy import verify
from fedswe.deploy.applied_requests import AppliedRequests
from fedswe.deploy.requests import Request, RequestFolder
from fedswe.deploy.server_files import ServerFiles
from fedswe.engine.outputs import Ema, Outputs, Window
from fedswe.experiment.experiment import Evaluate
from tests.deploy.parts import Network, quadratic
from tests.deploy.test_membership import ByHand, sites

AVERAGED = Evaluate(every=4, model=["server", "client_mean", "ema:0.8:of=client_mean", "window:3:of=client_mean"])
SPARSE = [[0], [1, 2], [], [3], [0, 3], [1], [2, 4], [4], [0, 1, 2, 3, 4], [2]]


@pytest.fixture
def reads(monkeypatch):
    """Counts the models that are read from files, by round."""
    seen, received = Counter(), ServerFiles.received

    def counted(files, t):
        seen[t] += 1
        return received(files, t)

    monkeypatch.setattr(ServerFiles, "received", counted)
    return seen


def after(net, clients, reads):
    """One round; the number of models that were read in it."""
    reads.clear()
    net.round(clients)
    return reads.total()


def test_with_averages_over_rounds_a_round_reads_the_models_that_it_changes(scratch, reads):
    net = Network(scratch, quadratic("fedswe", m=5, simulate_absence=False, evaluate=AVERAGED))
    left = [after(net, clients, reads) for clients in SPARSE]
    # The new model, and each model that the merged clients had before; x^0 is in memory. When all have merged, there is
    # only one model left to read.
    assert left == [1, 1, 0, 1, 3, 2, 2, 2, 1, 2]


def test_without_them_nothing_is_read_until_an_evaluation(scratch, reads):
    net = Network(scratch, quadratic("fedswe", m=5, simulate_absence=False))
    assert sum(after(net, clients, reads) for clients in SPARSE) == 0
    net.server.client_mean()
    assert reads.total() == len(set(net.server._clients.last.values())) == 2
    net.server.client_mean()
    assert reads.total() == 2


class Definition:
    """What the outputs read, from a loop written by hand."""

    def __init__(self, hand):
        self.hand, self.t, self.algorithm = hand, 0, None

    @property
    def m(self):
        return len(self.hand.members)

    def server_model(self):
        return self.hand.x

    def client_mean(self):
        return self.hand.mean()


@pytest.mark.parametrize("name", ["fedswe", "fedavg", "fedavg_all"])
def test_averages_of_the_client_mean_with_absences_joins_leaves_crashes_and_restarts(scratch, name, monkeypatch):
    options = {"evaluate": AVERAGED, "trail": True}
    net = Network(scratch, sites(name, 3, **options))
    hand = ByHand(name, sites(name, 4).problem(), range(3))
    wanted = Outputs(Definition(hand), {"ema": Ema(0.8, "client_mean"), "window": Window(3, "client_mean")})
    t = 0

    def run(*rounds):
        nonlocal t
        for active in rounds:
            net.round(active)
            hand.round(t, active)
            wanted.after_round()
            t += 1
            compare()

    def compare():
        found, by_hand = net.server.models(), wanted.models()
        for name, x in (
            ("client_mean", hand.mean()),
            ("ema_0.8_client_mean", by_hand["ema"]),
            ("window_3_client_mean", by_hand["window"]),
        ):
            torch.testing.assert_close(found[name], x, rtol=0, atol=1e-6)

    run([0, 1, 2], [0, 2], [] if name == "fedswe" else [1], [0, 1])
    net.server.change("leave", 1)
    hand.leave(1)
    run([0, 2], [2])
    net.restart()
    run([0])
    with monkeypatch.context() as patch:  # the round fails after its files were written, and is repeated by others
        patch.setattr(net.server._ledger, "append", lambda line: 1 / 0)
        net.ask([2])
        with pytest.raises(ZeroDivisionError):
            net.server.close()
        compare()
    net.restart()
    run([0])
    RequestFolder(net.server.directory).submit(Request("join", 3))
    net.server.release()
    net = Network(scratch, sites(name, 4, **options))
    AppliedRequests(net.server).apply()
    hand.join(3)
    run([0, 3], [2, 3], [0])
    net.server.release()
    found = verify(scratch / "server")
    assert found.passed, found.failures
    assert found.recomputed == t


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_does_not_depend_on_how_it_was_computed(scratch, dtype):
    """Summed up round by round, or from all models at once after a restart: the same bits."""
    from dataclasses import replace

    deployment = quadratic("fedswe", m=5, rounds=40, simulate_absence=False, evaluate=AVERAGED)
    dtype = str(dtype).removeprefix("torch.")
    deployment = replace(deployment, experiment=replace(deployment.experiment, dtype=dtype))
    net = Network(scratch, deployment)
    for _ in range(3):
        for clients in SPARSE:
            net.round(clients)
            mean = net.server.client_mean()
            net.server._clients._summed = None
            assert torch.equal(mean, net.server.client_mean())
