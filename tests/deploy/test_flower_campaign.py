"""Many faults on real processes at random times: every run ends, and it is the algorithm."""

from collections import Counter

import pytest

from fedswe.deploy.audit.verify import verify
from tests.deploy.campaign import Campaign
from tests.deploy.federation import Federation


def assert_survived(fed, monkeypatch, campaign):
    campaign.run()
    assert fed.alive() == []
    fed.find_task(monkeypatch)
    report = verify(fed.run)
    assert report.exact
    faults = Counter(campaign.done)
    print(f"{faults.total()} faults, {len(fed.entries())} rounds, {report.reports} reports: {faults}")


@pytest.mark.flower
def test_a_clientapp_that_hangs_and_a_few_faults(tmp_path, monkeypatch):
    deploy = {"delivery": "eager", "min_clients": 2, "deadline": 15.0}  # so the rounds wait until it is back
    with Federation(tmp_path, 2, rounds=6, deploy=deploy) as fed:
        log = fed.run / "flower" / "logs" / "client-0.log"
        fed.close_gate(0, 1)  # and it is never opened
        fed.up()
        fed.until(lambda: log.is_file() and "when its message expired" in log.read_text(), "end of the ClientApp")
        assert_survived(fed, monkeypatch, Campaign(fed, seed=1, faults=6, pause=(0.5, 3.0)))
        assert 0 not in fed.entries()[1].merged
        assert any(0 in entry.merged for entry in fed.entries()[2:])


@pytest.mark.campaign
@pytest.mark.parametrize(("tls", "delivery"), [(False, "eager"), (True, "lazy")], ids=["plain", "tls"])
def test_campaign(tmp_path, monkeypatch, tls, delivery):
    deploy = {"delivery": delivery, "min_clients": 1, "deadline": 30.0}
    with Federation(tmp_path, 3, tls=tls, rounds=6, deploy=deploy) as fed:
        assert_survived(fed, monkeypatch, Campaign(fed, seed=7 + tls, faults=32))
