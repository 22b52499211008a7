"""What is made through the Python API is private whatever the umask of the caller."""

import os

import pytest

from fedswe.deploy import backup
from fedswe.deploy.ledger_key import LedgerKey
from tests.deploy.parts import Network, quadratic


def modes(*paths):
    return {oct(path.stat().st_mode & 0o777) for path in paths}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_folders_and_keys(scratch, monkeypatch, mask):
    os.umask(mask)
    monkeypatch.setenv("FEDSWE_LEDGER_KEY", str(scratch / "data" / "ledger.key"))
    (scratch / "server").mkdir()  # empty: the run directory is made of it
    net = Network(scratch, quadratic("fedswe", rounds=3, p=1.0, trail=True))
    net.finish()
    net.server.release()
    backup.backup(scratch / "server", scratch / "a.tar")
    backup.restore(scratch / "a.tar", scratch / "new")
    folders = [scratch / name for name in ("server", "clients", "new", "data")]
    folders += [path for folder in folders for path in folder.rglob("*") if path.is_dir()]
    assert modes(*folders) == {"0o700"}
    assert modes(LedgerKey.path(), scratch / "a.tar") == {"0o600"}


def test_a_folder_with_other_files_keeps_its_permissions(scratch):
    (scratch / "server").mkdir()
    (scratch / "server" / "notes.txt").touch()
    Network(scratch, quadratic("fedswe")).server.release()
    assert modes(scratch / "server") == {"0o755"}
    assert modes(scratch / "server" / "state") == {"0o700"}
