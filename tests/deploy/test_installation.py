"""The files of an installation: units and Compose files as their own parsers read them."""

import os
import shutil
import subprocess

import pytest
import yaml

from fedswe.deploy.flower.app_template import write_app
from fedswe.deploy.flower.credentials import certificate_names
from fedswe.deploy.flower.private_files import make_private
from fedswe.deploy.flower.proxy import find_nginx
from tests.cli.command import fedswe
from tests.deploy.units import parse


@pytest.fixture
def app(tmp_path):
    write_app(tmp_path / "app", 2, tls=True, server="fl.example.org")
    return tmp_path / "app"


def written(app, monkeypatch, capsys, *options):
    out = app.parent / "out"
    words = ["deploy", "install-files", app, "--server", "fl.example.org", "--out", out, *options]
    code, _, said = fedswe(monkeypatch, capsys, *words)
    assert (code, said) == (0, "")
    return out


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(app, monkeypatch, capsys, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("flower-superlink", "flower-superexec", "flower-supernode", "flwr", "fedswe"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (tmp_path / "state").mkdir()
    options = ["--programs", programs, "--state", tmp_path / "state", "--user", "root"]
    out = written(app, monkeypatch, capsys, *options)
    units = sorted([*out.glob("server/systemd/*"), *out.glob("client/systemd/*")])
    for template in out.glob("client/systemd/*@.service"):
        instance = template.with_name(template.name.replace("@", "@1"))
        instance.write_text(template.read_text())
        units[units.index(template)] = instance
    assert len(units) == 8
    for unit in units:
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit], capture_output=True, text=True
        )
        said = [line for line in done.stderr.splitlines() if "nginx is not executable" not in line]
        assert said == [], unit


def test_only_nginx_is_reached_from_outside_under_systemd(app, monkeypatch, capsys):
    out = written(app, monkeypatch, capsys)
    services = {path.name: parse(path)["Service"] for path in out.glob("server/systemd/*.service")}
    private = {name for name, service in services.items() if service["PrivateNetwork"] == ["yes"]}
    assert set(services) - private == {"fedswe-proxy.service"}
    for name in private - {"fedswe-superlink.service"}:
        unit = parse(out / "server" / "systemd" / name)["Unit"]
        assert unit["JoinsNamespaceOf"] == ["fedswe-superlink.service"]
    for path in out.rglob("*.service"):
        service = parse(path)["Service"]
        assert (service["UMask"], service["NoNewPrivileges"]) == (["0077"], ["yes"])
        assert "PATH=/opt/fedswe/bin:" in service["Environment"][0]  # Flower starts its own programs by name
    socket = parse(out / "server" / "systemd" / "fedswe-forward.socket")["Socket"]
    assert (socket["ListenStream"], socket["SocketMode"]) == (["/run/fedswe/superlink.sock"], ["0600"])
    assert "server unix:/run/fedswe/superlink.sock;" in (out / "server" / "config" / "nginx.conf").read_text()


def test_only_nginx_is_reached_from_outside_in_compose(app, monkeypatch, capsys):
    out = written(app, monkeypatch, capsys, "--compose", "--port", "4433")
    server, client = (yaml.safe_load((out / side / "compose.yaml").read_text()) for side in ("server", "client"))
    services = server["services"]
    assert set(services) == {"network", "superlink", "superexec", "proxy", "submit"}
    assert services["network"]["ports"] == ["4433:4433"]
    for name in set(services) - {"network"}:
        assert services[name]["network_mode"] == "service:network"
        assert "ports" not in services[name]
    command = services["superlink"]["command"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert {"--superexec-auth-secret-file", "--enable-supernode-auth"} < set(command)
    assert set(client["services"]) == {"node"}
    assert "ports" not in client["services"]["node"]
    for service in [*services.values(), *client["services"].values()]:
        assert service["user"] == "10001:10001"
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    configuration = (out / "server" / "config" / "nginx.conf").read_text()
    assert "listen 4433 ssl;" in configuration
    assert "server 127.0.0.1:8000;" in configuration


@pytest.mark.parametrize("options", [[], ["--compose"]])
def test_files_of_both_sides(app, monkeypatch, capsys, options):
    (app / "run").mkdir()
    (app / "run" / "state").touch()
    out = written(app, monkeypatch, capsys, *options)
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert "server/config/app/federation/task.py" in names
    assert not {name for name in names if "client-" in name or "ca.key" in name or "/run/" in name}
    assert {name for name in names if name.startswith("client/config")} == {"client/config/ca.crt"}
    assert (out / "server" / "config" / "server.key").stat().st_mode & 0o777 == 0o600
    for script in out.rglob("install.sh"):
        assert subprocess.run(["sh", "-n", script]).returncode == 0
    if find_nginx():
        config = out / "server" / "config"
        (out / "prefix").mkdir()
        text = (config / "nginx.conf").read_text().replace("unix:/run/fedswe/superlink.sock", "127.0.0.1:8000")
        (config / "nginx.conf").write_text(text)
        command = [find_nginx(), "-t", "-e", "stderr", "-p", out / "prefix", "-c", config / "nginx.conf"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def run_script(script, *words, **variables):
    """Run an install.sh with a systemctl that does nothing."""
    tools = script.parent / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "systemctl").write_text("#!/bin/sh\n")
    (tools / "systemctl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "UNITS": str(tools), **variables}
    done = subprocess.run([script, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="install.sh needs root")
def test_installing_again_keeps_what_was_renewed_or_edited(app, tmp_path, monkeypatch, capsys):
    config = tmp_path / "etc"
    options = ["--config", config, "--state", tmp_path / "state", "--user", "root"]
    out = written(app, monkeypatch, capsys, *options)
    script = out / "server" / "install.sh"
    assert "kept" not in run_script(script)
    assert (config / "server.key").read_bytes() == (app / "keys" / "server.key").read_bytes()
    secret = (config / "superexec.secret").read_bytes()
    for name in ("server.crt", "nginx.conf"):
        (config / name).write_text("renewed or edited")
    said = run_script(script)
    assert [line.split()[1] for line in said.splitlines() if line.startswith("kept")] == [
        f"{config / 'server.crt'}",
        f"{config / 'nginx.conf'}",
    ]
    assert (config / "server.crt").read_text() == (config / "nginx.conf").read_text() == "renewed or edited"
    assert "kept" not in run_script(script, "--replace")
    assert (config / "server.crt").read_bytes() == (app / "keys" / "server.crt").read_bytes()
    assert (config / "superexec.secret").read_bytes() == secret

    client = out / "client" / "install.sh"
    first = run_script(client, "1")
    (config / "ca.crt").write_text("of another authority")
    assert f"kept: {config / 'ca.crt'} differs" in run_script(client, "1")
    assert run_script(client, "1", "--replace") == first


@pytest.mark.skipif(os.geteuid() != 0, reason="install.sh needs root")
def test_a_client_in_compose_keeps_where_its_data_are(app, monkeypatch, capsys):
    out = written(app, monkeypatch, capsys, "--compose")
    script, kept = out / "client" / "install.sh", out / "client" / ".env"
    run_script(script, "1")
    assert kept.read_text() == "CLIENT=1\nDATA=./data\n"
    run_script(script, "1", DATA="/srv/my data")
    run_script(script, "1")
    assert kept.read_text() == "CLIENT=1\nDATA=/srv/my data\n"


def test_mistakes(app, tmp_path, monkeypatch, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    good = ["--server", "fl.example.org"]
    for words, complaint in (
        (["--server", "other.example.org"], "is not valid for other.example.org: `fedswe deploy renew"),
        ([*good, "--port", "0"], "--port must be from 1 to 65535"),
        ([*good, "--state", "relative"], "--state must be an absolute path"),
        ([*good, "--config", "/etc/a b"], "--config must be an absolute path"),
        ([*good, "--user", "a b"], "--user must be a user name"),
        ([*good, "--out", tmp_path / "full"], "is not empty"),
    ):
        code, _, said = fedswe(monkeypatch, capsys, "deploy", "install-files", app, "--out", tmp_path / "no", *words)
        assert (code, complaint in said, said.count("\n")) == (2, True, 1), said
    assert not (tmp_path / "no").exists()
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "init", tmp_path / "x", "--tls", "--server", "a b:80")
    assert (code, "--server must be a DNS name or an IP address" in said) == (2, True)
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "init", tmp_path / "y", "--server", "a.b")
    assert (code, "give --tls too" in said) == (2, True)


def test_renewal_keeps_names_and_authority(app, monkeypatch, capsys):
    keys = app / "keys"
    before = {name: (keys / name).read_bytes() for name in ("ca.crt", "ca.key", "server.crt", "server.key")}
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "renew", app, "--server", "10.0.0.7")
    assert (code, "364 days" in said) == (0, True)
    assert certificate_names(keys / "server.crt") == ["10.0.0.7", "fl.example.org", "127.0.0.1", "localhost"]
    changed = {name for name, content in before.items() if (keys / name).read_bytes() != content}
    assert changed == {"server.crt", "server.key"}
    assert (keys / "server.key").stat().st_mode & 0o777 == 0o600
    if shutil.which("openssl"):
        strict = ["openssl", "verify", "-x509_strict", "-CAfile", keys / "ca.crt", keys / "server.crt"]
        assert subprocess.run(strict, capture_output=True).returncode == 0  # Python 3.13 is as strict


def test_a_folder_that_others_could_read_is_made_private(tmp_path):
    folder = tmp_path / "run"
    (folder / "state").mkdir(parents=True)
    (folder / "state" / "model").write_text("")
    for path in (folder, folder / "state", folder / "state" / "model"):
        path.chmod(0o755)
    make_private(folder)
    (folder / "new").touch()
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))} == {0}
