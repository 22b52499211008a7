"""fedswe watch: the page follows its directory, for this machine only."""

import http.client
import threading

import pytest

from fedswe.errors import FedsweError
from fedswe.report.server import ReportServer
from tests.figures.runs import write_run


@pytest.fixture
def server(tmp_path):
    with ReportServer([tmp_path], 0) as opened:
        threading.Thread(target=opened.serve_forever, args=(0.05,)).start()
        yield opened
        opened.shutdown()


def asked(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def test_it_listens_on_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(FedsweError, match=f"cannot listen on port {server.server_port} of 127.0.0.1 .*another --port"):
        ReportServer([], server.server_port)


@pytest.mark.parametrize("path", ["/compare.csv", "/../etc/passwd", "/?x", "/%2e%2e/"])
def test_no_file_is_served(server, path):
    assert asked(server, path)[0].status == 404


def test_a_name_that_another_site_gave_this_machine_is_refused(server):
    assert asked(server, Host=f"evil.example:{server.server_port}")[0].status == 421
    assert asked(server, Host=f"localhost:{server.server_port}")[0].status == 200
    assert asked(server, method="POST")[0].status == 501


def test_the_page_follows_the_directory(server, tmp_path, monkeypatch):
    monkeypatch.setattr("fedswe.report.server._PAUSE", 0.0)
    monkeypatch.setattr("fedswe.report.server._SHARE", 0)
    answer, page = asked(server)
    assert (answer.headers["Refresh"], answer.headers["Cache-Control"]) == ("5", "no-store")
    assert "Nothing to show yet" in page
    run = write_run(tmp_path / "a", rounds=20, finished=False)
    assert "Not finished" in asked(server)[1]
    (run / "history.csv").write_text("round,server_test_loss\n1,")  # just being written
    assert "Nothing to show yet" in asked(server)[1]


OWN = """
from pathlib import Path

from fedswe.algorithms import FedAvg

Path(__file__).with_suffix(".ran").touch()


class Own(FedAvg):
    pass
"""


def test_no_code_that_a_configuration_names_is_run(server, tmp_path):
    (tmp_path / "own_of_watch.py").write_text(OWN)
    name = f"{tmp_path}/own_of_watch.py:Own"
    kinds = ("algorithm", "task", "availability")
    write_run(tmp_path / "a", **{kind: {"name": name} for kind in kinds})
    assert "Scores over the rounds" in asked(server)[1]
    assert not (tmp_path / "own_of_watch.ran").exists()
