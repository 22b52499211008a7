"""The key of the seals: made once, private, and never replaced by none."""

import os
import stat

import pytest

from fedswe.deploy import ServerEndpoint, verify
from fedswe.deploy.ledger_key import VARIABLE, LedgerKey
from fedswe.errors import FedsweError, FedsweWarning
from tests.deploy.parts import Network, quadratic


@pytest.fixture
def path(scratch, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(scratch / "keys" / "ledger.key"))
    return scratch / "keys" / "ledger.key"


def test_it_is_made_once(path):
    assert LedgerKey.find().secret == b""
    key = LedgerKey.of_this_machine()
    assert len(key.secret) == 32
    assert LedgerKey.of_this_machine() == LedgerKey.find() == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [other.name for other in path.parent.iterdir()] == ["ledger.key"]
    path.write_text(path.read_text().upper() + "\n")
    assert LedgerKey.find() == key


def test_file_and_folder_are_synced(path, monkeypatch):
    synced, fsync = [], os.fsync

    def seen(handle):
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    LedgerKey.of_this_machine()
    assert synced == [False, True]


@pytest.mark.parametrize("content", [b"", b"abc", b"ab" * 31, b"ab" * 33, b"xy" * 32, b"\xff" * 64])
def test_a_damaged_key_is_an_error_that_names_it(path, scratch, content):
    net = Network(scratch, quadratic("fedswe", rounds=3))
    net.round()
    net.server.release()
    path.write_bytes(content)
    acts = (LedgerKey.of_this_machine, lambda: verify(scratch / "server"))
    for act in (*acts, lambda: ServerEndpoint.open(scratch / "server", net.deployment)):
        with pytest.raises(FedsweError, match=r"ledger\.key is damaged") as caught:
            act()
        assert "\n" not in str(caught.value)


def test_a_key_that_cannot_be_used_is_a_warning(path):
    path.mkdir(parents=True)
    with pytest.warns(FedsweWarning, match="the ledger is not sealed"):
        assert LedgerKey.of_this_machine().secret == b""
