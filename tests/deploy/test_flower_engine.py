"""The same app, unmodified, on Flower's simulation engine."""

import pytest

from fedswe.algorithms import Scaffold
from fedswe.deploy.audit.verify import verify
from fedswe.deploy.deployment import FILE, Deployment
from tests.deploy.federation import ABSENCE, Federation

pytestmark = pytest.mark.flower


def test_the_same_app_on_flowers_simulation_engine(tmp_path, monkeypatch):
    """With an algorithm whose state lives at the server; the keys of the app are not asked for."""
    deploy = {"simulate_absence": True, "min_clients": 4, "delivery": "lazy"}
    chosen = {"name": "scaffold"}
    with Federation(tmp_path, 4, tls=True, rounds=6, algorithm=chosen, availability=ABSENCE, deploy=deploy) as fed:
        fed.up("--simulation")
        assert fed.end() == 0
        assert fed.alive() == []
        fed.assert_equals_simulation(monkeypatch)
        assert isinstance(Deployment.load(fed.run / FILE).experiment.algorithm, Scaffold)
        assert verify(fed.run).exact
