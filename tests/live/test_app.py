"""What the server refuses, by requests as they come from the network."""

import asyncio
import signal
import socket
import subprocess
import sys

import pytest

from fedswe.errors import FedsweError
from fedswe.live.app import application
from fedswe.live.hub import Hub
from fedswe.live.serve import listen
from tests.live.server import PATIENCE, LiveServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    (folder / "runs").mkdir()
    (folder / "secret.txt").write_text("secret")
    started = LiveServer([folder / "runs"])
    yield started
    assert started.stop() == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_any_method_but_get_and_head_is_refused(server, method):
    status, headers, _ = server.ask("/", method)
    assert status == 405
    assert headers["allow"] == "GET, HEAD"
    assert not any(name.lower().startswith("access-control") for name in headers)


def test_head_and_get_are_answered(server):
    assert server.ask("/", "HEAD")[::2] == (200, b"")
    assert server.ask("/events", "HEAD")[::2] == (200, b"")  # which ends at once
    status, headers, body = server.ask("/")
    assert status == 200
    assert b"<title>fedswe live</title>" in body
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "script-src" not in headers["content-security-policy"]  # so inline scripts are refused
    assert b"<script>" not in body
    assert "server" not in {name.lower() for name in headers}


@pytest.mark.parametrize(
    "host",
    ["example.org", "example.org:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.example.org:{port}", "", "[::1]"],
)
def test_a_foreign_host_is_refused(server, host):
    status, _, body = server.ask("/events", host=host.format(port=server.port) or " ")
    assert status == 421
    assert b"event" not in body


def test_a_request_without_host_or_with_two_is_refused(server):
    for lines in ("", f"Host: 127.0.0.1:{server.port}\r\nHost: example.org\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
            raw.sendall(f"GET / HTTP/1.0\r\n{lines}\r\n".encode())
            answer = raw.makefile("rb").readline()
        assert answer.split()[1] in (b"421", b"400")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_not_embed_this_one(server, site):
    assert server.ask("/events", **{"Sec-Fetch-Site": site})[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "//etc/passwd", "/static/../../secret.txt",
        "/live.js/../../secret.txt", "/live.js%00", "/etc/passwd", "/..\\secret.txt", "/index.html", "/app.py",
        "/events/../secret.txt",
    ],
)  # fmt: skip
def test_nothing_but_the_page_is_served(server, path):
    status, _, body = server.ask(path)
    assert status == 404
    assert b"secret" not in body
    assert b"root:" not in body


@pytest.mark.parametrize("id_", ["../secret.txt", "..%2f..%2fetc%2fpasswd", "0123456789abcdeG", "0" * 17, "%00"])
def test_an_id_is_not_a_path(server, id_):
    assert server.ask(f"/events?id={id_}")[0] == 404


def test_unknown_ids_are_only_never_answered(server):
    name, message = next(server.events("0" * 16))
    assert (name, message["items"], message["all"]) == ("items", [], True)


def test_only_the_loopback_interface_listens(server):
    address = socket.gethostbyname(socket.gethostname())
    if address.startswith("127."):
        pytest.skip("this machine has no other address")
    with socket.socket() as other:
        assert other.connect_ex((address, server.port)) != 0


def test_a_port_that_is_taken_is_one_line(server):
    with pytest.raises(FedsweError, match=f"cannot listen on port {server.port} of 127.0.0.1"):
        listen(server.port)


def test_many_pages_are_refused_before_they_are_too_many(server):
    opened = []
    try:
        for _ in range(210):
            raw = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            opened.append(raw)
            raw.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
            answer = raw.recv(15)
        assert b" 503 " in answer
    finally:
        for raw in opened:
            raw.close()
    name, _ = next(server.events())  # closed pages are counted no more
    assert name == "items"


def test_pages_that_ask_at_the_same_time_are_not_too_many(server):
    opened, sent = [], 0
    try:
        for _ in range(230):
            opened.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE))
            opened[-1].sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        for raw in opened:
            answer = b""
            while not any(end in answer for end in (b"event: items", b"\r\n0\r\n\r\n", b" 503 ")):
                answer += raw.recv(10_000)
            sent += b"event: items" in answer
    finally:
        for raw in opened:
            raw.close()
    assert 0 < sent <= 200


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    hidden = "import sys; sys.modules['starlette'] = None; from fedswe.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", hidden, "watch"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: the live page needs starlette: pip install 'fedswe[live]'\n"


@pytest.mark.parametrize(("port", "status"), [(80, 200), (8765, 421)])
def test_a_browser_does_not_name_port_80(tmp_path, port, status):
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/live.css",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
    }
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(application(Hub([tmp_path]), port)(scope, None, send))
    assert sent[0]["status"] == status


def test_headers_without_end_are_refused(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX: ".encode())
        refused, sent = False, 0
        while not refused and sent < 64 << 20:
            try:
                raw.sendall(b"a" * (1 << 20))
            except OSError:  # the server has closed the connection
                refused = True
            sent += 1 << 20
    assert refused
    assert server.ask("/")[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_even_if_every_look_fails(tmp_path, number):
    program = """if True:
        import sys
        from pathlib import Path
        from fedswe.live.hub import Hub
        from fedswe.live.serve import listen, serve

        def fails(hub):
            raise ArithmeticError("a defect")

        Hub.look = fails
        listening = listen(0)
        listening.listen()
        print(listening.getsockname()[1], flush=True)
        serve([Path(sys.argv[1])], listening)
    """
    server = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=-1, stderr=-1, text=True)
    with server, socket.create_connection(("127.0.0.1", int(server.stdout.readline())), timeout=PATIENCE) as page:
        page.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert page.recv(100).startswith(b"HTTP/1.1 421")  # it serves
        server.send_signal(number)
        _, said = server.communicate(timeout=PATIENCE)
    assert "the page is not complete: ArithmeticError: a defect" in said
