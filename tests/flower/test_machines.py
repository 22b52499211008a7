"""examples/flower as docs/machines.md says: real processes behind nginx, and strangers before it."""

import http.client
import importlib
import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.flower.processes import BIN, Federation, free_port, listening

APP = Path(__file__).parents[2] / "examples" / "flower"
MACHINES = APP / "machines"
NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"]))
UNITS = ["flower-superlink.service", "flower-run.service", "flower-supernode.service"]
# nginx.conf is a file for conf.d; around it stands what a distribution's nginx.conf has.
AROUND = """
pid nginx.pid; error_log stderr warn; events {{}}
http {{
    client_body_temp_path body; proxy_temp_path proxy;
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include {site};
}}
"""


@pytest.fixture
def app(tmp_path):
    """A copy of the app, so that nothing is written to the repository."""
    return shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))


def placed(name, places):
    """A text of machines/ with the addresses and folders of a test."""
    text = (MACHINES / name).read_text()
    for there, here in places.items():
        assert there.isdigit() or any(there in path.read_text() for path in MACHINES.iterdir()), there
        text = text.replace(there, str(here))
    return text


def command(name, places):
    """The words of ExecStart of a unit."""
    (line,) = re.findall(r"^ExecStart=(.*)$", placed(name, places).replace("\\\n", " "), re.MULTILINE)
    return shlex.split(line)


@pytest.mark.flower
def test_the_app_is_of_the_current_format_and_builds(app):
    done = subprocess.run([BIN / "flwr", "build"], cwd=app, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = app.glob("*.fab")
    assert bundle.stat().st_size < 20_000


def test_a_client_without_samples_declines(tmp_path, monkeypatch):
    pytest.importorskip("flwr")
    monkeypatch.syspath_prepend(str(APP))
    client = importlib.import_module("federated_digits.client_app")
    for node in ({}, {"partition-id": 0}, {"data": str(tmp_path / "nothing.npz")}):
        with pytest.raises((ValueError, FileNotFoundError), match="this site has no samples"):
            client.samples(node)
    x, y = client.samples({"partition-id": 1, "num-partitions": 10})
    assert len(x) == len(y) > 80
    assert len(set(y.tolist())) <= 4


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path):
    for name in UNITS:
        (tmp_path / name).write_text(placed(name, {"/opt/fedswe/bin": BIN}))
    done = subprocess.run(["systemd-analyze", "verify", *UNITS], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_compose_and_the_units_start_the_same_commands():
    services = yaml.safe_load((MACHINES / "compose.yaml").read_text())["services"]
    for name, state in [("superlink", "/state"), ("supernode", "/state")]:
        unit = command(f"flower-{name}.service", {"/opt/fedswe/bin/": "", "/var/lib/fedswe": state})
        said = [word.replace("${SERVER:-localhost}", "fl.example.org") for word in services[name]["command"]]
        assert sorted(said) == sorted(unit)
    assert services["network"]["ports"] == ["8443:8443"]
    assert all("ports" not in service for name, service in services.items() if name != "network")


def test_nginx_lets_the_requests_of_registered_nodes_through_and_no_others():
    (listed,) = re.findall(r"location ~ \^/v1/fleet/\(([a-z|-]+)\)\$ ", (MACHINES / "nginx.conf").read_text())
    source = Path(importlib.import_module("flwr.supernode.fleet_http_client").__file__).read_text()
    known = set(re.findall(r'path="/v1/fleet/([a-z-]+)"', source))
    assert known - set(listed.split("|")) == {"register-node", "unregister-node"}
    assert set(listed.split("|")) < known


@pytest.mark.flower
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: apt-get install nginx-light)")
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_registered_sites_train_and_strangers_get_nothing(tmp_path, app):
    inside, outside, keys, state = free_port(), free_port(), tmp_path / "etc", tmp_path / "state"
    keys.mkdir()
    (state / "flower").mkdir(parents=True)
    places = {
        "/opt/fedswe/bin": BIN, "/etc/fedswe/app": app, "/etc/fedswe": keys, "/var/lib/fedswe": state,
        "fl.example.org:8443": f"127.0.0.1:{outside}", "8000": inside, "8443": outside,
    }  # fmt: skip

    with Federation(tmp_path / "logs", FLWR_HOME=str(state / "flower")) as fed:

        def make_keys(*words):
            done = subprocess.run(
                [MACHINES / "make-keys.sh", *words], cwd=keys, env=fed.environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr

        make_keys("server", "127.0.0.1")
        for site in ("a", "b", "c", "stranger"):
            make_keys("site", site)
        subprocess.run([sys.executable, "-m", "federated_digits.task", "3"], cwd=state, check=True,
                       env={**fed.environment, "PYTHONPATH": str(app)})  # fmt: skip
        (state / "flower" / "config.toml").write_text(placed("config.toml", places))
        listening(inside, fed.start("superlink", *command("flower-superlink.service", places)))
        (tmp_path / "site.conf").write_text(placed("nginx.conf", places))
        (tmp_path / "nginx.conf").write_text(AROUND.format(site=tmp_path / "site.conf"))
        nginx = [NGINX, "-e", "stderr", "-p", tmp_path, "-c", "nginx.conf", "-g", "daemon off; master_process off;"]
        listening(outside, fed.start("nginx", *nginx))
        for number, site in enumerate("abc"):
            make_keys("register", f"{site}.key.pub")
            own = {"/data/digits.npz": state / f"digits-{number}.npz", "/etc/fedswe/site.key": keys / f"{site}.key"}
            words = command("flower-supernode.service", {**own, **places})
            fed.start(f"site-{site}", *words, "--port", free_port(), FLWR_HOME=str(state / site))

        words = command("flower-run.service", places)
        assert fed.flwr(*words[1:-1], f"{words[-1]} num-server-rounds=3").returncode == 0
        (run,) = [found["run-id"] for found in fed.answer("ls", "server")["runs"]]

        strangers = _strangers(fed, tmp_path, app, f"127.0.0.1:{outside}", keys, run)
        for name, program in strangers.items():
            assert program.process.wait(120) != 0, f"{name}: {program.said()}"
            reason = "could not establish a connection" if "node" in name else "404 Not Found"
            assert reason in program.said()
        for path in ("/docs", "/health", "/v1/control/list-runs", "/v1/runtime/acquire-task", "/v1/fleet/register-node",
                     "/v1/fleet/../control/list-runs", "/v1/fleet/%2e%2e/control/list-runs",
                     "/v1/fleet/get-run/../../control/list-runs"):  # fmt: skip
            assert _answer(outside, keys, "POST", path) in (400, 404), path
        assert _answer(outside, keys, "GET", "/v1/fleet/pull-messages") == 403
        assert _answer(outside, keys, "POST", "/v1/fleet/pull-messages") == 401  # not signed by a registered key

        status = fed.finished(run)
        assert status[0] == "finished:completed", (status, fed.said(run))
        assert not (tmp_path / "trace").exists()
        nodes = fed.answer("supernode", "ls", "server")["nodes"]
        assert [node["status"] for node in nodes] == ["online"] * 3
        said = subprocess.run(
            [BIN / "fedswe", "flower", "status", state / "federation.db", "--json"], capture_output=True, text=True
        )
        clients = {client["client"]: client["merged"] for client in json.loads(said.stdout)["clients"]}
        assert clients == {node["node-id"]: 3 for node in nodes}

        # The same command again continues the run.
        again = fed.run(app, store=str(state / "federation.db"), names=False, num_server_rounds=4)
        assert fed.finished(again)[0] == "finished:completed", fed.said(again)
        assert "[ROUND 4/4]" in fed.said(again)
        assert "[ROUND 3/4]" not in fed.said(again)
    assert fed.pids() == []


def _answer(port, keys, method, path):
    """The status of the answer to a path, sent as it is written."""
    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=30)
    connection.request(method, path, headers={"content-type": "application/protobuf"})
    status = connection.getresponse().status
    connection.close()
    return status


def _strangers(fed, folder, app, address, keys, run):
    """Who knows the address and the authority's certificate, and has a key that nobody registered."""
    home = folder / "stranger"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink.victim]\naddress = "{address}"\nroot-certificates = "{keys / "ca.crt"}"\n'
    )
    evil = shutil.copytree(app, folder / "evil")
    for path in (evil / "federated_digits").glob("*_app.py"):
        path.write_text(f"open({str(folder / 'trace')!r}, 'w')\n" + path.read_text())
    commands = {
        "run": ["flwr", "run", evil, "victim"],
        "list": ["flwr", "ls", "victim"],
        "stop": ["flwr", "stop", run, "victim"],
        "register": ["flwr", "supernode", "register", keys / "stranger.key.pub", "victim"],
    }
    node = ["flower-supernode", "--superlink", address, "--root-certificates", keys / "ca.crt", "--max-retries", "1"]
    key = ["--auth-supernode-private-key", keys / "stranger.key"]
    commands["node without key"] = [*node, "--port", free_port()]
    commands["node with key"] = [*node, "--port", free_port(), *key]
    return {
        name: fed.start(f"stranger {name}", BIN / words[0], *words[1:], FLWR_HOME=str(home))
        for name, words in commands.items()
    }
