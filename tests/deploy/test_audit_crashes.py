"""A process that ends at any write near the end of a run leaves a directory that verifies and continues."""

import os

import pytest

from fedswe.deploy import ServerEndpoint, ledger
from fedswe.deploy.audit.verify import Scope, verify
from fedswe.deploy.rollback import rollback
from fedswe.experiment.experiment import Evaluate
from tests.deploy.parts import Network, quadratic
from tests.deploy.storm import Crash

EVALUATE = Evaluate(every=1)


def made(rounds=2):
    return quadratic("fedswe", rounds=rounds, m=2, p=1.0, trail=True, keep_rounds=1, evaluate=EVALUATE)


def release(net):
    if net.server is not None:
        net.server.release()
    net.server = None


def last_round(net):
    net.finish()


def more_rounds(net):
    release(net)
    net.server = ServerEndpoint.open(net.folder / "server", made(3), net.problem)
    net.finish()


def taken_back(net):
    release(net)
    rollback(net.folder / "server", 1)


def ended(monkeypatch, act, writes):
    """Whether the process ended: before it had changed files more often than `writes`."""
    left = [writes]

    def guarded(change):
        def change_or_end(*arguments, **options):
            if not left[0]:
                raise Crash
            left[0] -= 1
            return change(*arguments, **options)

        return change_or_end

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "pwrite"):
            patch.setattr(os, name, guarded(getattr(os, name)))
        try:
            act()
        except Crash:
            return True
    return False


@pytest.mark.parametrize("act", [last_round, more_rounds, taken_back])
def test_a_process_that_ends_at_any_write(scratch, monkeypatch, act):
    went_on, writes = True, 0
    while went_on:
        net = Network(scratch / str(writes), made())
        net.round()
        if act is not last_round:
            net.finish()
        went_on = ended(monkeypatch, lambda net=net: act(net), writes)
        release(net)
        folder = net.folder / "server"
        found = verify(folder, scope=Scope(clients=net.folder / "clients"))
        assert found.passed, (writes, found.failures)
        net.server = ServerEndpoint.open(folder, made(3), net.problem)
        net.finish()
        release(net)
        found = verify(folder, scope=Scope(clients=net.folder / "clients"))
        assert found.exact, (writes, found.failures)
        assert not [note for part in found.parts for note in part.notes]
        assert len(ledger.read(folder / ledger.FILE).entries) == 3
        writes += 1
    assert writes > 5
