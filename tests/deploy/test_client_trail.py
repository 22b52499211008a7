"""A client's journal: damaged lines are left out, whatever they hold."""

import json

import pytest

from fedswe.deploy.audit import verify_client
from fedswe.deploy.client_trail import ClientTrail
from tests.deploy.parts import Network, quadratic


@pytest.mark.parametrize("field", ["kind", "run", "round", "head", "base", "epoch", "merged", "report", "new"])
def test_a_record_with_another_value(scratch, field):
    net = Network(scratch, quadratic("fedswe", rounds=3, p=1.0, trail=True))
    net.round()
    trail = ClientTrail(scratch / "clients", 1)
    records = list(trail.records())
    assert len(records) == 2
    path = trail.folder / "journal.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    with path.open("a") as file:
        for value in (None, ["x"], {"x": 1}, True, 10**400, 0.5):
            file.write(json.dumps({**line, field: value}) + "\n" + "[" * 100000 + "\n")
    assert list(trail.records()) == records
    assert verify_client(scratch / "server", 1, scratch / "clients").passed


@pytest.mark.parametrize("report", ["", "../../../", "x" * 32])
def test_a_report_whose_digest_is_none(scratch, report):
    net = Network(scratch, quadratic("fedswe", rounds=3, p=1.0, trail=True))
    net.round()
    trail = ClientTrail(scratch / "clients", 1)
    path = trail.folder / "journal.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**line, "report": report}) + "\n")
    assert list(trail.records()) == []
