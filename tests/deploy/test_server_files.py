"""The server's files: what a round reads and removes, and what is left by a process that ended in a round."""

import errno
import os
from pathlib import Path

import pytest

from fedswe.deploy import verify
from tests.deploy.parts import Network, quadratic


def reports(net):
    return sorted(path.name for path in (net.folder / "server" / "reports").iterdir())


def test_a_round_does_not_list_what_grows_with_the_rounds(scratch, monkeypatch):
    net = Network(scratch, quadratic("fedswe", p=1.0, trail=True, keep_rounds=2))
    net.round()
    listed, scan = set(), os.scandir

    def seen(path):
        listed.add(Path(path).name)
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", seen)
        net.round()
    assert "state" in listed
    assert not listed & {"reports", "trail"}
    assert len(reports(net)) == 8


@pytest.mark.parametrize("content", [b"", b"half a report"])
def test_reports_of_a_committed_round_that_a_power_failure_has_left(scratch, content):
    """Without deploy.trail they are removed after the commit, and are not synced."""
    net = Network(scratch, quadratic("fedswe", p=1.0))
    for _ in range(3):
        net.round()
    for name in ("0-1", "2-0", "3-2"):
        (scratch / "server" / "reports" / f"{name}.safetensors").write_bytes(content)
    found = verify(scratch / "server")
    assert found.passed, found.failures
    assert "reports/2-0.safetensors was left by a server" in str(found.parts)
    net.restart()
    assert reports(net) == []
    net.finish()
    assert verify(scratch / "server").exact


def test_kept_reports_stay_where_the_trail_is_switched_off_later(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0, trail=True))
    net.round()
    net.restart(quadratic("fedswe", p=1.0))
    net.round()
    (scratch / "server" / "reports" / "1-0.safetensors").write_bytes(b"")
    (scratch / "server" / "trail" / ".2.safetensors.part").write_bytes(b"")
    net.restart()
    assert reports(net) == [f"0-{i}.safetensors" for i in range(4)]
    assert [path.name for path in (scratch / "server" / "trail").iterdir()] == ["1.safetensors"]


def test_a_full_disk_of_the_server_is_not_the_fault_of_a_client(scratch, monkeypatch, caplog):
    net = Network(scratch, quadratic("fedswe", p=1.0, trail=True))
    write = Path.write_bytes

    def full(path, content):
        if path.name != "0-2.safetensors":
            return write(path, content)
        write(path, content[:50])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        net.ask()
    assert reports(net) == ["0-0.safetensors", "0-1.safetensors", "0-3.safetensors"]
    assert "this server cannot store: No space left on device" in caplog.text
    net.close()
    assert (sorted(net.server.committed.merged), net.server.committed.rejected) == ([0, 1, 3], {})
    net.finish()
    found = verify(scratch / "server")
    assert found.passed, found.failures
