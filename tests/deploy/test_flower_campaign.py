"""Many faults on real processes at random times: every run ends, and it is the algorithm."""

from collections import Counter

import pytest

from fedswe.deploy.audit import verify
from tests.deploy.campaign import Campaign
from tests.deploy.federation import Federation


def survive(folder, monkeypatch, seed, faults, tls=False, delivery="eager", **options):
    deploy = {"delivery": delivery, "min_clients": 1, "deadline": 30.0}
    with Federation(folder, 3, tls=tls, rounds=4, deploy=deploy) as fed:
        campaign = Campaign(fed, seed, faults, **options)
        campaign.run()
        assert len(campaign.done) == faults
        assert fed.alive() == []
        fed.find_task(monkeypatch)
        report = verify(fed.run)
        assert report.exact
        print(f"{faults} faults, {len(fed.entries())} rounds, {report.reports} reports: {Counter(campaign.done)}")


@pytest.mark.flower
def test_a_few_faults(tmp_path, monkeypatch):
    survive(tmp_path, monkeypatch, seed=1, faults=6, pause=(0.5, 3.0))


@pytest.mark.campaign
@pytest.mark.parametrize(("tls", "delivery"), [(False, "eager"), (True, "lazy")], ids=["plain", "tls"])
def test_campaign(tmp_path, monkeypatch, tls, delivery):
    survive(tmp_path, monkeypatch, seed=7 + tls, faults=32, tls=tls, delivery=delivery)
