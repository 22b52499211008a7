"""The systemd units that `fedswe deploy install-files` writes, run as real processes with systemd's environment."""

import os
import shutil
import ssl
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx
import pytest
import tomli_w

from fedswe.deploy import ledger
from fedswe.deploy.audit.verify import verify
from fedswe.deploy.flower.app_template import write_app
from fedswe.deploy.flower.installation import write_installation
from fedswe.deploy.flower.node_keys import read_lines, write_lines
from fedswe.deploy.flower.places import Places
from fedswe.deploy.flower.processes import free_ports, listening, marked, stop_marked
from fedswe.deploy.flower.proxy import find_nginx
from fedswe.deploy.ledger_key import VARIABLE
from tests.deploy.units import Machine, possible

pytestmark = [
    pytest.mark.flower,
    pytest.mark.skipif(find_nginx() is None, reason="nginx is not installed (Debian: apt-get install nginx-light)"),
    pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed"),
    pytest.mark.skipif(not possible(), reason="network namespaces cannot be made: this needs root"),
]


def until(condition, what, machines, seconds=300):
    limit = time.monotonic() + seconds
    while not condition():
        logs = "\n".join(machine.log.read_text()[-3000:] for machine in machines if machine.log.is_file())
        assert time.monotonic() < limit, f"no {what} after {seconds} s:\n{logs}"
        time.sleep(0.2)


def install(script, units, *arguments):
    """Run an install.sh with a systemctl that does nothing."""
    tools = units.parent / "tools"
    tools.mkdir(parents=True)
    units.mkdir()
    (tools / "systemctl").write_text("#!/bin/sh\n")
    (tools / "systemctl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "UNITS": str(units)}
    done = subprocess.run([script, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def readable_by_others(folder):
    found = [path for path in (folder, *folder.rglob("*")) if not path.is_symlink()]
    return [path for path in found if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) and not path.is_socket()]


def test_a_run_under_the_units_of_server_and_client(tmp_path, monkeypatch):
    app = tmp_path / "app"
    write_app(app, 1, tls=True, server="127.0.0.2")
    table = tomllib.loads((app / "deployment.toml").read_text())
    table |= {"rounds": 2, "local": {"steps": 2, "batch_size": 8, "lr": 0.2}}
    table["deploy"] |= {"min_clients": 1, "delivery": "lazy", "deadline": 200.0}
    (app / "deployment.toml").write_text(tomli_w.dumps(table))
    port, programs = free_ports(1)[0], str(Path(sys.executable).parent)
    places = {
        side: Places(
            "127.0.0.2", port, programs, str(tmp_path / side / "config"), str(tmp_path / side / "state"), "root",
            str(tmp_path / "superlink.sock"),
        )
        for side in ("server", "client")
    }  # fmt: skip
    for side in places:
        write_installation(app, tmp_path / f"files-{side}", places[side], compose=False)

    # The client makes its key; its operator gives the public key to the operator of the server.
    said = install(tmp_path / "files-client" / "client" / "install.sh", tmp_path / "client" / "units", "0")
    install(tmp_path / "files-server" / "server" / "install.sh", tmp_path / "server" / "units")
    (line,) = [line for line in said.splitlines() if line.startswith("ecdsa-sha2-nistp384")]
    deployed = Path(places["server"].config) / "app"
    assert read_lines(deployed) != [line]
    write_lines(deployed, [line])

    mark, units = str(tmp_path), {side: tmp_path / side / "units" for side in places}
    with Machine(units["server"], mark) as server, Machine(units["client"], mark, "0") as client:
        both = [server, client]
        try:
            for name in ("superlink.service", "superexec.service", "forward.socket", "proxy.service"):
                server.start(f"fedswe-{name}")
            trust = ssl.create_default_context(cafile=str(tmp_path / "client" / "config" / "ca.crt"))

            def fleet():
                try:
                    answer = httpx.post(f"https://127.0.0.2:{port}/v1/fleet/pull-messages", verify=trust)
                except httpx.HTTPError:
                    return 0
                return answer.status_code

            until(lambda: fleet() not in (0, 502), "SuperLink behind nginx", both)

            # A user of the server's machine reaches nginx, and nothing else.
            assert not listening(Places.superlink_port)
            assert httpx.get(f"https://127.0.0.2:{port}/docs", verify=trust).status_code == 404

            said = server.run("fedswe-submit.service")
            assert "1 keys added, client 0; 0 removed" in said
            client.start("fedswe-node@.service")
            path = Path(places["server"].state) / "run" / ledger.FILE
            submitted = time.monotonic()

            def finished():
                nonlocal submitted
                if time.monotonic() - submitted > 60:  # as the timer does: Flower ends a ServerApp that starts slowly
                    assert "0 keys added; 0 removed" in server.run("fedswe-submit.service")
                    submitted = time.monotonic()
                return path.is_file() and len(ledger.read(path).entries) == 2

            until(finished, "two rounds", both, 600)
            assert [set(entry.merged) for entry in ledger.read(path).entries] == [{0}, {0}]
        finally:
            stop_marked(mark)
    assert marked(mark) == []
    monkeypatch.setenv(VARIABLE, f"{places['server'].state}/.local/share/fedswe/ledger.key")  # of the user of the units
    assert verify(path.parent).passed  # the units do not limit threads, which round differently
    for side in places:
        assert readable_by_others(Path(places[side].state)) == []
