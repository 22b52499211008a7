"""Runs that nobody tampered with pass both halves, whatever failed on the way."""

import pytest

from fedswe.deploy.audit.verify import Scope, verify, verify_client
from fedswe.experiment.experiment import Evaluate
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import quadratic
from tests.deploy.storm import Storm, in_memory

NAMES = sorted(ALGORITHMS)


def untampered(monkeypatch, seed):
    """A run with losses, crashes and restarts; then the server's half, and that of every client."""
    name, delivery = NAMES[seed % len(NAMES)], ("eager", "lazy")[seed % 2]
    evaluate = Evaluate(model=["server", "ema"], every=3)
    deployment = quadratic(
        name, rounds=8, m=2 + seed % 3, delivery=delivery, p=0.8, trail=True, keep_rounds=seed % 4, evaluate=evaluate
    )
    with in_memory() as folder, monkeypatch.context() as patch:
        storm = Storm(folder, deployment, seed, patch, rate=(0.0, 0.1, 0.3)[seed % 3]).run(steps_per_round=6)
        storm.server.release()
        server = verify(folder / "server", scope=Scope(replay=False))
        assert server.passed, (name, seed, server.failures)
        assert server.recomputed == server.rounds == 8
        replayed = 0
        for client in range(deployment.problem().m):
            found = verify_client(folder / "server", client, folder / f"client{client}")
            assert found.passed, (name, seed, found.failures)
            assert found.replayed == found.reports
            replayed += found.replayed
        assert replayed == server.reports
        whole = verify(folder / "server")
        assert whole.exact, (name, seed, whole.failures)
    return sum(storm.faults.values())


def test_untampered_runs_pass(monkeypatch):
    assert sum(untampered(monkeypatch, seed) for seed in range(12)) > 50


@pytest.mark.campaign
def test_a_hundred_untampered_runs_pass(monkeypatch):
    assert sum(untampered(monkeypatch, seed) for seed in range(12, 112)) > 500
