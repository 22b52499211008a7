"""clients.toml, and the commands that change it, without a SuperLink."""

import json
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedswe.deploy.flower.app_template import write_app
from fedswe.deploy.flower.credentials import public_key_of
from fedswe.deploy.flower.node_keys import fingerprint, read_keys, read_lines, write_lines
from fedswe.deploy.flower.trial import Trial
from fedswe.errors import FedsweError, FedsweWarning
from tests.cli.command import fedswe


@pytest.fixture
def app(tmp_path):
    write_app(tmp_path / "app", 3, tls=True)
    return tmp_path / "app"


def test_rotate_makes_a_new_pair_and_revoke_leaves_the_number(app, monkeypatch, capsys):
    before = read_keys(app)
    assert fedswe(monkeypatch, capsys, "deploy", "keys", "rotate", app, 1)[0] == 0
    rotated = read_keys(app)
    assert [old == new for old, new in zip(before, rotated, strict=True)] == [True, False, True]
    assert public_key_of(app / "keys" / "client-1.key") == rotated[1]
    assert (app / "keys" / "client-1.key").stat().st_mode & 0o777 == 0o600
    assert fedswe(monkeypatch, capsys, "deploy", "keys", "revoke", app, 1)[0] == 0
    assert read_keys(app) == [before[0], None, before[2]]
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "keys", "revoke", app, 1)
    assert (code, "client 1 has no key" in said) == (2, True)
    listed = json.loads(fedswe(monkeypatch, capsys, "deploy", "keys", "list", app, "--json")[1])
    assert listed["superlink"] is None
    assert [row["status"] for row in listed["keys"]] == ["not asked", "revoked", "not asked"]


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_key_that_was_made_at_the_client(app, tmp_path, monkeypatch, capsys):
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-C"]
    command += ["client 2 at home", "-N", "", "-f", tmp_path / "own"]
    subprocess.run(command, check=True)
    assert fedswe(monkeypatch, capsys, "deploy", "keys", "rotate", app, 2, "--key", tmp_path / "own.pub")[0] == 0
    assert read_keys(app)[2] == public_key_of(tmp_path / "own")
    shown = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "own.pub"], capture_output=True, text=True).stdout
    assert fingerprint(read_keys(app)[2]) == shown.split()[1]
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "keys", "rotate", app, 0, "--key", tmp_path / "own.pub")
    assert (code, "already the key of client 2" in said) == (2, True)
    before = read_lines(app)
    assert fedswe(monkeypatch, capsys, "deploy", "keys", "rotate", app, 2, "--key", tmp_path / "own.pub")[0] == 0
    assert read_lines(app) == before  # a command that is given again changes nothing


def test_the_next_client_gets_a_key(app, tmp_path, monkeypatch, capsys):
    before = read_keys(app)
    with pytest.raises(FedsweError, match=r"no key of client 3: `fedswe deploy keys rotate \S+ 3` gives it one"):
        Trial(app, tmp_path / "run", 4, False).with_keys()
    assert fedswe(monkeypatch, capsys, "deploy", "keys", "rotate", app, 3)[0] == 0
    assert read_keys(app) == [*before, public_key_of(app / "keys" / "client-3.key")]
    assert Trial(app, tmp_path / "run", 4, False).with_keys() == [0, 1, 2, 3]


def test_mistakes_change_nothing(app, tmp_path, monkeypatch, capsys):
    before = read_lines(app)
    other = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (tmp_path / "other.pub").write_bytes(other)
    (tmp_path / "two.pub").write_text("\n".join(before[:2]))
    for words, complaint in (
        (["rotate", app, 4], "CLIENT must be from 0 to 3, not 4"),
        (["revoke", app, 7], "CLIENT must be from 0 to 2, not 7"),
        (["rotate", app, 0, "--key", tmp_path / "other.pub"], "is not an ECDSA key"),
        (["rotate", app, 0, "--key", tmp_path / "two.pub"], "must hold one public key"),
        (["rotate", app, 0, "--key", tmp_path / "none.pub"], "cannot read"),
        (["sync", app], "no trial of"),
        (["sync", app, "--superlink", "nobody"], "has no section [superlink.nobody]"),
        (["list", tmp_path], "clients.toml is missing"),
    ):
        code, _, said = fedswe(monkeypatch, capsys, "deploy", "keys", *words)
        assert (code, complaint in said, said.count("\n")) == (2, True, 1), said
    assert read_lines(app) == before


def test_a_superlink_that_does_not_answer_is_one_line(app, tmp_path, monkeypatch, capsys):
    (tmp_path / "config.toml").write_text('[superlink.away]\naddress = "127.0.0.1:9"\ninsecure = true\n')
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "keys", "sync", app, "--superlink", "away")
    assert (code, "127.0.0.1:9 does not answer" in said, said.count("\n")) == (2, True, 1)


def test_lines_that_are_no_keys(app):
    (app / "clients.toml").write_text('keys = ["", "nonsense"]')
    with pytest.raises(FedsweError, match=r"'nonsense'... is not an OpenSSH public key"):
        read_keys(app)
    (app / "clients.toml").write_bytes(b"\xff")
    with pytest.raises(FedsweError, match="must be TOML"):
        read_keys(app)
    (app / "clients.toml").write_text("keys = [1]")
    with pytest.raises(FedsweError, match="must be a list of public keys"):
        read_keys(app)


def test_a_file_that_may_not_be_read_is_one_line(app, monkeypatch, capsys):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fedswe.deploy.flower.node_keys.Path.read_text", refuse)
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "keys", "list", app)
    assert (code, said) == (2, f"error: cannot read {app / 'clients.toml'}: Permission denied: check its permissions\n")


def test_a_trial_starts_the_nodes_of_clients_with_a_key(app, tmp_path):
    trial = Trial(app, tmp_path / "run", 3)
    assert trial.with_keys() == [0, 1, 2]
    write_lines(app, ["", *read_lines(app)[1:]])
    with pytest.warns(FedsweWarning, match="client 0 has no key"):
        assert trial.with_keys() == [1, 2]
    (app / "keys" / "client-1.key").write_text("damaged")
    with pytest.warns(FedsweWarning, match="client-1.key is not the key of client 1 in clients.toml"):
        assert trial.with_keys() == [1, 2]
    with pytest.raises(FedsweError, match="no key of client 3"):
        Trial(app, tmp_path / "run", 4).with_keys()
