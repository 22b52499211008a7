"""A backup continues and verifies elsewhere; an archive is hostile until it is checked."""

import io
import os
import stat
import tarfile

import pytest

from fedswe.deploy import ServerEndpoint, backup, ledger, verify
from fedswe.deploy.audit.verify import Scope, verify_client
from fedswe.deploy.rollback import rollback
from fedswe.errors import FedsweError
from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic
from tests.deploy.tampering import flip, of_kind, rewrite


def members(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def pack(path, files, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w") as archive:
        for name, content in files:
            about = tarfile.TarInfo(name)
            about.size, about.type = len(content) if kind == tarfile.REGTYPE else 0, kind
            about.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
            archive.addfile(about, io.BytesIO(content))


def continued(net, folder):
    net.server.release()
    net.folder = folder.parent
    net.server = ServerEndpoint.open(folder, net.deployment, net.problem)
    net.finish()


@pytest.mark.parametrize("name", ["fedswe", "mifa", "fedavg"])
@pytest.mark.parametrize("trail", [False, True])
def test_a_backup_of_a_running_server_continues_and_verifies(scratch, name, trail):
    net = Network(scratch, quadratic(name, rounds=8, keep_rounds=2, trail=trail))
    for _ in range(4):
        net.round()
    assert backup.backup(scratch / "server", scratch / "a.tar")[0] == 4
    assert stat.S_IMODE(os.stat(scratch / "a.tar").st_mode) == 0o600
    for _ in range(2):
        net.round()
    restored = backup.restore(scratch / "a.tar", scratch / "other" / "server")
    assert (restored.rounds, restored.foreign) == (4, False)
    assert verify(scratch / "other" / "server", scope=Scope(replay=True)).passed
    (scratch / "other" / "clients").symlink_to(scratch / "clients")
    continued(net, scratch / "other" / "server")
    found = verify(scratch / "other" / "server", scope=Scope(clients=scratch / "clients"))
    assert found.exact, found.failures
    changes = ledger.read(scratch / "other" / "server" / ledger.FILE).changes
    assert [(change.action, change.t) for change in changes] == [("restore", 4)]


def test_a_client_sees_that_rounds_it_took_part_in_were_restored_away(scratch):
    """Explained by the restore, and named; without that line it is a failure."""
    net = Network(scratch, quadratic("fedswe", rounds=8, p=1.0, trail=True))
    for _ in range(3):
        net.round()
    backup.backup(scratch / "server", scratch / "a.tar")
    for _ in range(2):
        net.round([0, 1])
    backup.restore(scratch / "a.tar", scratch / "new" / "server")
    continued(net, scratch / "new" / "server")
    shown = verify_client(scratch / "new" / "server", 0, scratch / "clients")
    assert shown.passed, shown.failures
    assert "rounds 3, 4, in which this client took part, are not in this ledger" in str(shown.parts)
    assert "took part" not in str(verify_client(scratch / "new" / "server", 2, scratch / "clients").parts)
    # The same directory, put back without the command.
    with tarfile.open(scratch / "a.tar") as archive:
        archive.extractall(scratch / "old" / "server", filter="data")
    continued(net, scratch / "old" / "server")
    shown = verify_client(scratch / "old" / "server", 0, scratch / "clients")
    assert any("names a line that this ledger does not have" in failure for failure in shown.failures)


def test_a_client_sees_that_a_rollback_was_restored_away(scratch):
    """Rounds are taken back and run again after the backup: the client has other records of rounds that are in it."""
    net = Network(scratch, quadratic("fedswe", rounds=8, p=1.0, trail=True, keep_rounds=3))
    for _ in range(3):
        net.round([0, 1, 2])
    for _ in range(2):
        net.round([1])
    backup.backup(scratch / "server", scratch / "a.tar")
    net.server.release()
    rollback(scratch / "server", 3)
    net.server = ServerEndpoint.open(scratch / "server", net.deployment, net.problem)
    net.round([0, 2])
    backup.restore(scratch / "a.tar", scratch / "new" / "server")
    continued(net, scratch / "new" / "server")
    for client in range(4):
        shown = verify_client(scratch / "new" / "server", client, scratch / "clients")
        assert shown.passed, shown.failures
        assert ("rounds 3, in which this client took part, are not in" in str(shown.parts)) == (client in (0, 2))
    # A restore does not explain that earlier rounds were replaced.
    rewrite(scratch / "new" / "server", lambda lines: of_kind("round", lines)[2].update(seconds=9.0))
    shown = verify_client(scratch / "new" / "server", 0, scratch / "clients")
    assert any("names a line that this ledger does not have" in failure for failure in shown.failures)


def test_a_backup_of_another_machine_is_sealed_from_here_on(scratch, monkeypatch):
    net = Network(scratch, quadratic("fedswe", rounds=6))
    for _ in range(3):
        net.round()
    backup.backup(scratch / "server", scratch / "a.tar")
    monkeypatch.setenv("FEDSWE_LEDGER_KEY", str(scratch / "key"))
    # A plain copy is refused, and says what to do.
    with tarfile.open(scratch / "a.tar") as archive:
        archive.extractall(scratch / "copy", filter="data")
    ledger.LedgerKey.of_this_machine()
    with pytest.raises(FedsweError, match="`fedswe deploy backup` and `restore`"):
        ServerEndpoint.open(scratch / "copy", net.deployment, net.problem)
    assert backup.restore(scratch / "a.tar", scratch / "new" / "server").foreign
    continued(net, scratch / "new" / "server")
    found = verify(scratch / "new" / "server")
    assert found.exact, found.failures
    assert "were restored from a backup of another machine" in str(found.parts)


def test_a_server_that_commits_while_the_files_are_read(scratch, monkeypatch):
    """Files of earlier rounds vanish: the backup begins again with the newer ledger."""
    net = Network(scratch, quadratic("fedswe", rounds=8, p=1.0, keep_rounds=0))
    net.round()
    read, left = backup._read, [3]

    def late(folder, name):
        if name.startswith("state/") and left[0]:
            left[0] -= 1
            net.round()
        return read(folder, name)

    monkeypatch.setattr(backup, "_read", late)
    assert backup.backup(scratch / "server", scratch / "a.tar")[0] == 4
    assert backup.restore(scratch / "a.tar", scratch / "new").rounds == 4


def test_the_models_of_a_later_round_are_left_out(scratch, monkeypatch):
    """The server finishes the run after the ledger was read."""
    net = Network(scratch, quadratic("fedswe", rounds=5, keep_rounds=5))
    for _ in range(3):
        net.round()
    read, left = backup._read, [1]

    def late(folder, name):
        if name == "deployment.toml" and left:
            left.clear()
            net.finish()
        return read(folder, name)

    monkeypatch.setattr(backup, "_read", late)
    rounds, _ = backup.backup(scratch / "server", scratch / "a.tar")
    assert (scratch / "server" / "model.safetensors").exists()
    backup.restore(scratch / "a.tar", scratch / "new")
    found = verify(scratch / "new")
    assert found.passed, found.failures
    assert (found.rounds, (scratch / "new" / "model.safetensors").exists()) == (rounds, rounds == 5)


def test_a_deployment_of_a_later_start_is_not_mixed_with_this_ledger(scratch, monkeypatch):
    net = Network(scratch, quadratic("fedswe", rounds=5))
    net.finish()
    read, left = backup._read, [1]

    def late(folder, name):
        if name == "deployment.toml" and left:
            left.clear()
            net.restart(quadratic("fedswe", rounds=8))
            net.round()
        return read(folder, name)

    monkeypatch.setattr(backup, "_read", late)
    assert backup.backup(scratch / "server", scratch / "a.tar")[0] == 6
    backup.restore(scratch / "a.tar", scratch / "new")
    found = verify(scratch / "new")
    assert found.passed, found.failures
    net.server.release()
    (scratch / "server" / "deployment.toml").write_text("rounds = 1")
    with pytest.raises(FedsweError, match=r"deployment\.toml is not the file"):
        backup.backup(scratch / "server", scratch / "b.tar")


def test_a_backup_is_not_written_into_the_run(scratch):
    net = Network(scratch, quadratic("fedswe"))
    net.round()
    (scratch / "link").symlink_to(scratch / "server")
    for path in (scratch / "server" / "a.tar", scratch / "server" / "state" / "a.tar", scratch / "link" / "a.tar"):
        with pytest.raises(FedsweError, match="is inside the run directory"):
            backup.backup(scratch / "server", path)


def test_the_folders_of_a_restored_run_are_synced(scratch, monkeypatch):
    net = Network(scratch, quadratic("fedswe", trail=True))
    net.round()
    backup.backup(scratch / "server", scratch / "a.tar")
    synced, fsync = set(), os.fsync

    def seen(handle):
        synced.add(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    backup.restore(scratch / "a.tar", scratch / "new")
    assert synced >= {"state", "versions", "reports", "trail", ".new.part", scratch.name}


@pytest.mark.parametrize("harm", ["state/3", "start"])
def test_a_damaged_run_gives_no_backup(scratch, harm):
    net = Network(scratch, quadratic("fedswe", rounds=8))
    for _ in range(3):
        net.round()
    flip(scratch / "server" / f"{harm}.safetensors")
    with pytest.raises(FedsweError, match=harm):
        backup.backup(scratch / "server", scratch / "a.tar")
    assert [path.name for path in scratch.iterdir() if "tar" in path.name] == []


def test_what_is_there_is_not_overwritten(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=8))
    net.round()
    backup.backup(scratch / "server", scratch / "a.tar")
    with pytest.raises(FedsweError, match="exists"):
        backup.backup(scratch / "server", scratch / "a.tar")
    with pytest.raises(FedsweError, match="is not empty"):
        backup.restore(scratch / "a.tar", scratch / "server")
    (scratch / "empty").mkdir()
    backup.restore(scratch / "a.tar", scratch / "empty")
    assert stat.S_IMODE(os.stat(scratch / "empty").st_mode) == 0o700


@pytest.mark.parametrize("name", [
    "../evil", "/etc/evil", "state/../../evil", "state/1.sh", "evil.py", "clients/x", "state/1.safetensors/x", "",
])  # fmt: skip
def test_names_in_an_archive_are_checked(scratch, name):
    pack(scratch / "a.tar", [(name, b"x")])
    with pytest.raises(FedsweError, match="is not a backup of a run"):
        backup.restore(scratch / "a.tar", scratch / "new" / "run")
    assert not (scratch / "new" / "run").exists()
    assert not list((scratch / "new").iterdir())


def test_an_archive_that_is_none(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=8))
    for _ in range(2):
        net.round()
    backup.backup(scratch / "server", scratch / "a.tar")
    files = members(scratch / "a.tar")
    wrong = {
        "link": lambda path: pack(path, [(ledger.FILE, b"")], tarfile.SYMTYPE),
        "hard link": lambda path: pack(path, [(ledger.FILE, b"")], tarfile.LNKTYPE),
        "device": lambda path: pack(path, [(ledger.FILE, b"")], tarfile.CHRTYPE),
        "twice": lambda path: pack(path, [*files.items(), (ledger.FILE, files[ledger.FILE])]),
        "no ledger": lambda path: pack(path, [item for item in files.items() if item[0] != ledger.FILE]),
        "no state": lambda path: pack(path, [item for item in files.items() if item[0] != "state/2.safetensors"]),
        "damaged state": lambda path: pack(path, [(n, c + b"x" * n.startswith("state")) for n, c in files.items()]),
        "text": lambda path: path.write_text("x" * 2000),
        "empty": lambda path: path.write_bytes(b""),
        "cut": lambda path: path.write_bytes((scratch / "a.tar").read_bytes()[:3000]),
    }
    for how, make in wrong.items():
        path = scratch / f"{how}.tar"
        make(path)
        with pytest.raises(FedsweError) as caught:
            backup.restore(path, scratch / "new" / how)
        assert "\n" not in str(caught.value), how
        assert not (scratch / "new" / how).exists()
    assert not list((scratch / "new").iterdir())


def test_the_commands(scratch, monkeypatch, capsys):
    net = Network(scratch, quadratic("fedswe", rounds=3))
    net.finish()
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "backup", scratch / "server", scratch / "a.tar")
    assert (code, "3 rounds" in said) == (0, True)
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "restore", scratch / "a.tar", scratch / "new")
    assert (code, "3 rounds" in said) == (0, True)
    assert verify(scratch / "new").exact
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "restore", scratch / "none.tar", scratch / "new2")
    assert (code, said.count("\n")) == (2, 1)
