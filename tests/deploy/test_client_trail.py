"""A client's journal: damaged lines are left out, whatever they hold."""

import errno
import json
import os

import pytest
import torch

from fedswe.deploy import client_trail, durable_files
from fedswe.deploy.audit.verify import verify_client
from fedswe.deploy.client_trail import ClientTrail
from fedswe.deploy.durable_files import append
from fedswe.results.files import cannot_write
from tests.deploy.parts import Network, quadratic


@pytest.mark.parametrize(
    "field", ["kind", "run", "round", "head", "base", "epoch", "merged", "report", "new", "stored"]
)
def test_a_record_with_another_value(scratch, field):
    net = Network(scratch, quadratic("fedswe", rounds=3, p=1.0, trail=True))
    net.round()
    trail = ClientTrail(scratch / "clients", 1)
    records = list(trail.records())
    assert len(records) == 2
    path = trail.folder / "journal.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    with path.open("a") as file:
        for value in (None, ["x"], {"x": 1}, 10**400, 0.5):
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


@pytest.mark.parametrize("full", ["journal", "all"])
def test_a_disk_that_is_full_for_a_round_is_a_note(scratch, monkeypatch, full):
    """The client takes part, and its journal says later what it could not store."""
    net = Network(scratch, quadratic("fedswe", rounds=4, p=1.0, trail=True))
    net.round()

    def refuse(path, *_):
        raise cannot_write(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    with monkeypatch.context() as patch:
        patch.setattr(
            durable_files, "append", lambda path, *rest: refuse(path) if "trail-1" in str(path) else append(path, *rest)
        )
        if full == "all":
            patch.setattr(client_trail, "write_whole", refuse)
        net.ask([1])
    net.close()
    assert net.server.committed.merged == {1: 0}
    net.finish()
    found = verify_client(scratch / "server", 1, scratch / "clients")
    assert found.passed, found.failures
    lost = full == "all"
    assert (found.replayed, found.reports) == (4 - lost, 4)
    assert ("round 1: the client could not store what it trained from" in str(found.parts)) is lost
    # A report that was stored and is missing is still a failure.
    next((scratch / "clients" / "trail-1").glob("2-*.safetensors")).unlink()
    assert "is missing or damaged" in str(verify_client(scratch / "server", 1, scratch / "clients").failures)


def test_records_that_were_lost_with_the_client_are_a_failure(scratch, monkeypatch):
    net = Network(scratch, quadratic("fedswe", rounds=3, p=1.0, trail=True))
    net.round()
    (scratch / "clients" / "trail-1").rename(scratch / "away")
    (scratch / "clients" / "trail-1").write_text("not a folder")
    net.round()
    (scratch / "clients" / "trail-1").unlink()
    (scratch / "away").rename(scratch / "clients" / "trail-1")
    net.restart_client(1)
    net.finish()
    assert "of which the client has no record" in str(
        verify_client(scratch / "server", 1, scratch / "clients").failures
    )


@pytest.mark.parametrize(("said", "known"), [(7, 7), (10**19, -1), (-5, -1), ("many", -1), (None, -1)])
def test_a_record_is_readable_whatever_the_server_says_about_rounds_taken_back(scratch, said, known):
    header = {"run": "r", "round": 3, "head": "h", "base": "b", "epoch": "e", "merged": 2}
    trail = ClientTrail(scratch, 0)
    trail.add_report(header if said is None else {**header, "reached": said}, {}, {"report.x": torch.zeros(2)})
    (record,) = trail.records()
    assert (record.round, record.reached, record.stored) == (3, known, True)
