"""A stranger who has the server's address and its authority's certificate, against a trial with real processes."""

import os
import re
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import tomli_w

from fedswe.deploy.flower.app_template import write_app
from fedswe.deploy.flower.credentials import write_key_pair
from fedswe.deploy.flower.processes import free_ports
from fedswe.deploy.flower.proxy import find_nginx
from fedswe.deploy.flower.registration import Connection, registered
from tests.deploy.federation import Federation, words_of

pytestmark = pytest.mark.flower

EVIL = """
from pathlib import Path
Path({trace!r}).touch()
"""


class Stranger:
    """Commands of Flower in an empty FLWR_HOME that knows one SuperLink."""

    def __init__(self, folder, address, authority):
        folder.mkdir()
        table = {"superlink": {"victim": {"address": address, "root-certificates": str(authority)}}}
        (folder / "config.toml").write_text(tomli_w.dumps(table))
        self._folder = folder
        self._environment = {
            **os.environ,
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }

    def start(self, *words):
        program = str(Path(sys.executable).parent / words[0])
        return subprocess.Popen(
            [program, *map(str, words[1:])],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.mark.skipif(find_nginx() is None, reason="nginx is not installed (Debian: apt-get install nginx-light)")
def test_a_stranger_gets_nothing_through_the_proxy(tmp_path):
    evil, trace = tmp_path / "evil", tmp_path / "trace"
    write_app(evil, 2, tls=False)
    for name in ("server.py", "client.py"):
        path = evil / "federation" / name
        path.write_text(EVIL.format(trace=str(trace)) + path.read_text())
    write_key_pair(tmp_path, 9)
    deploy = {"delivery": "lazy", "min_clients": 2, "deadline": 120.0}
    with Federation(tmp_path, 2, tls=True, rounds=2, deploy=deploy) as fed:
        fed.close_gate(0, 1)  # the second round stays open during the attack
        fed.up()
        fed.until_round(1)
        (port,) = map(int, re.findall(r"https://127.0.0.1:(\d+)", fed.said()))
        authority = fed.app / "keys" / "ca.crt"
        outside = f"127.0.0.1:{port}"
        inside = Connection.named(fed.run / "flower", "trial")
        assert inside.address != outside
        known = registered(inside)
        assert [node.status for node in known] == ["online"] * 2
        (run,) = set(re.findall(r"\[RUN (\d+)\]", (fed.run / "flower" / "logs" / "client-1.log").read_text()))

        ports = free_ports(2)
        stranger = Stranger(tmp_path / "home-outside", outside, authority)
        attacks = [
            stranger.start("flwr", "run", evil, "victim"),
            stranger.start("flwr", "supernode", "register", tmp_path / "client-9.pub", "victim"),
            stranger.start("flwr", "supernode", "unregister", known[0].node, "victim"),
            stranger.start("flwr", "supernode", "list", "victim"),
            stranger.start("flwr", "list", "victim"),
            stranger.start("flwr", "stop", run, "victim"),
            stranger.start("flwr", "log", run, "victim", "--show"),
            stranger.start(
                "flower-supernode", "--superlink", outside, "--root-certificates", authority, "--max-retries", "1",
                "--isolation", "process", "--port", ports.pop(),
                "--auth-supernode-private-key", tmp_path / "client-9.key",
            ),
            stranger.start(
                "flower-supernode", "--superlink", outside, "--root-certificates", authority, "--max-retries", "1",
                "--isolation", "process", "--port", ports.pop(),
            ),
        ]  # fmt: skip
        said = [attack.communicate(timeout=300)[0] for attack in attacks]
        successes = [(attack.args, text) for attack, text in zip(attacks, said, strict=True) if not attack.returncode]
        assert successes == []
        assert "unrecognized arguments" not in "".join(said)
        trust = ssl.create_default_context(cafile=str(authority))
        with httpx.Client(base_url=f"https://{outside}", verify=trust) as client:
            for path in ("/docs", "/openapi.json", "/", "/v1/control/list-runs", "/v1/runtime/acquire-task"):
                assert client.get(path).status_code == 404
                assert client.post(path).status_code == 404
            unsigned = client.post(
                "/v1/fleet/pull-messages", content=b"", headers={"content-type": "application/protobuf"}
            )
            assert unsigned.status_code == 401

        # Without the secret, no job of the server or of a client is given away, also on this machine.
        for address, tls in [(inside.address, trust), *((a, None) for a in _runtime_addresses(fed))]:
            with httpx.Client(verify=tls or True) as client:
                answer = client.post(
                    f"{'https' if tls else 'http'}://{address}/v1/runtime/acquire-task",
                    content=b"",
                    headers={"content-type": "application/protobuf"},
                )
                assert answer.status_code in (401, 403), address

        # Nor can anybody read on a command line what a ClientApp shows to its SuperNode.
        shown = [words_of(process) for process in fed.alive()]
        assert [words for words in shown if "--token" in words and not words[1].endswith("flwr-serverapp")] == []

        # The same command at the SuperLink itself works: what stops it outside is the proxy.
        insider = Stranger(tmp_path / "home-inside", inside.address, authority).start("flwr", "list", "victim")
        assert run in insider.communicate(timeout=300)[0].replace("\n", "")
        assert insider.returncode == 0
        assert {(node.node, node.status) for node in registered(inside)} == {(node.node, "online") for node in known}
        assert not trace.exists()

        fed.open_gate(0, 1)
        assert fed.end(400) == 0
        assert [set(entry.merged) for entry in fed.entries()] == [{0, 1}] * 2
        others = stat.S_IRWXG | stat.S_IRWXO
        paths = [path for path in (fed.run, *fed.run.rglob("*")) if not path.is_symlink()]
        assert [path for path in paths if path.stat().st_mode & others] == []


def _runtime_addresses(fed):
    """Where the SuperNodes of a trial give jobs to their SuperExecs."""
    found = []
    for client in range(2):
        line = fed.supernode(client).cmdline()
        found.append(f"127.0.0.1:{line[line.index('--port') + 1]}")
    return found
