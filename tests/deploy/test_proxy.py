"""The proxy's configuration, in a real nginx in front of a stand-in for the SuperLink."""

import re
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from flwr.supernode import fleet_http_client

from fedswe.deploy.flower.credentials import write_credentials
from fedswe.deploy.flower.processes import free_ports, listening
from fedswe.deploy.flower.proxy import FLEET_PATHS, Proxy, find_nginx

needs_nginx = pytest.mark.skipif(
    find_nginx() is None, reason="nginx is not installed (Debian: apt-get install nginx-light)"
)


def test_the_paths_are_those_of_a_supernode_with_a_key():
    source = Path(fleet_http_client.__file__).read_text()
    known = set(re.findall(r'path="(/v1/fleet/[a-z-]+)"', source))
    assert known - set(FLEET_PATHS) == {"/v1/fleet/register-node", "/v1/fleet/unregister-node"}
    assert set(FLEET_PATHS) < known


class Recorder(BaseHTTPRequestHandler):
    """Answers everything, and keeps what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.path, len(body)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_PUT = do_DELETE = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def proxied(tmp_path):
    """The address of nginx, a client that trusts it, and the requests that came through."""
    keys = tmp_path / "keys with ; and 'quotes' $here"
    write_credentials(keys, 0)
    outside, inside = free_ports(2)
    upstream = ThreadingHTTPServer(("127.0.0.1", inside), Recorder)
    upstream.asked = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.crt", keys / "server.key")
    upstream.socket = context.wrap_socket(upstream.socket, server_side=True)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    folder = tmp_path / "proxy"
    folder.mkdir()
    (folder / "keys").symlink_to(keys)
    (folder / "nginx.conf").write_text(Proxy(f"127.0.0.1:{outside}", f"127.0.0.1:{inside}", "keys/").configuration())
    options = "daemon off; master_process off;"
    command = [find_nginx(), "-e", "stderr", "-p", str(folder), "-c", "nginx.conf", "-g", options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        limit = time.monotonic() + 30
        while not listening(outside):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < limit
            time.sleep(0.05)
        trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        with httpx.Client(base_url=f"https://127.0.0.1:{outside}", verify=trust, timeout=60) as client:
            yield client, upstream.asked
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()
        upstream.shutdown()
        upstream.server_close()


OTHERS = [
    "/", "/docs", "/openapi.json", "/health", "/v1/health", "/v1/fleet", "/v1/fleet/", "/v1/fleet/register-node",
    "/v1/fleet/unregister-node", "/v1/fleet/pull-messages/", "/v1/fleet/pull-messagesx", "/V1/FLEET/pull-messages",
    "/v1/control/start-run", "/v1/control/register-node", "/v1/control/stop-run", "/v1/control/list-runs",
    "/v1/runtime/acquire-task", "/v1/runtime/pull-task-input", "/v1/responses",
    "/v1/fleet/../control/start-run", "/v1/fleet/%2e%2e/control/start-run",
    "/v1/fleet/pull-messages/../../control/list-runs",
    "/v1/fleet/pull-messages%00", "/v1/fleet%2fpull-messages/..%2f..%2fcontrol/list-runs",
]  # fmt: skip


@needs_nginx
def test_only_the_requests_of_supernodes_pass(proxied):
    client, asked = proxied
    for path in FLEET_PATHS:
        assert client.post(path, content=b"x").text == "ok"
    assert asked == [(path, 1) for path in FLEET_PATHS]
    asked.clear()
    for path in OTHERS:
        for method in ("GET", "POST"):
            assert _raw(client, method, path) in (400, 404), path
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert client.request(method, FLEET_PATHS[0]).status_code in (403, 405)
    assert asked == []
    # Another way to write a path that is open: the SuperLink sees the plain one.
    assert _raw(client, "POST", "/v1/control/..//fleet/./pull%2dmessages") == 200
    assert asked == [("/v1/fleet/pull-messages", 0)]


@needs_nginx
def test_a_part_of_a_model_passes_and_larger_bodies_and_headers_do_not(proxied):
    client, asked = proxied
    part = 5 * 2**20 + 1000  # Flower's limit of one object, and its header
    assert client.post("/v1/fleet/push-object", content=bytes(part)).status_code == 200
    assert asked == [("/v1/fleet/push-object", part)]
    assert client.post("/v1/fleet/push-object", content=bytes(33 * 2**20)).status_code == 413
    assert client.post("/v1/fleet/push-object", headers={"x": "y" * 20_000}).status_code == 400
    assert len(asked) == 1


def _raw(client, method, path):
    """Send a path as it is written; httpx would resolve dots."""
    request = client.build_request(method, "/", headers={"content-length": "0"} if method == "POST" else {})
    request.url = _Raw(str(request.url), path)
    return client.send(request).status_code


class _Raw(httpx.URL):
    def __init__(self, url, path):
        super().__init__(url)
        self._path = path.encode()

    @property
    def raw_path(self):
        return self._path
