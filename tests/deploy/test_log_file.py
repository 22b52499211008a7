"""Text from outside cannot forge a line of the log or control a terminal, and the file is rotated."""

import logging

import pytest

from fedswe.deploy import Packet, log_file
from fedswe.deploy.log_file import LOG, log
from fedswe.errors import FedsweError, printable
from tests.deploy.parts import Network, quadratic

HOSTILE = "a\nround 3: client 1 failed\x1b[2J\r\u202e[/red]\ud800"


def test_printable_text_is_one_line():
    shown = printable(HOSTILE)
    assert shown == "a\\nround 3: client 1 failed\\x1b[2J\\r\\u202e[/red]\\ud800"
    assert printable("Zürich, 東京 [x]") == "Zürich, 東京 [x]"


def test_reasons_of_clients_are_escaped_in_every_handler(scratch, caplog):
    net = Network(scratch, quadratic("fedavg", p=1.0))
    header = net.server.jobs([0])[0].header
    with log_file.log_file(scratch):
        net.server.receive(0, Packet("decline", {**header, "reason": HOSTILE}))
        log.warning("%s", "x" * 5000)
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            log.warning("failed", exc_info=True)
    lines = (scratch / LOG).read_text().splitlines()
    assert "client 0 declines: a\\nround 3" in lines[0]
    assert len(lines[1]) < 1100
    assert all(line.startswith("    ") for line in lines[3:])
    assert "\x1b" not in (scratch / LOG).read_text()
    assert "\x1b" not in "".join(record.getMessage() for record in caplog.records)


def test_the_log_is_rotated(scratch, monkeypatch):
    monkeypatch.setattr(log_file, "_BYTES", 1000)
    with log_file.log_file(scratch):
        for i in range(100):
            log.warning("line %d of many", i)
    names = sorted(path.name for path in scratch.iterdir())
    assert names == ["server.log", "server.log.1", "server.log.2", "server.log.3"]
    assert all(path.stat().st_size <= 1000 for path in scratch.iterdir())
    assert "line 99" in (scratch / LOG).read_text()


def test_a_flood_of_messages_is_counted_and_logged_a_few_times(scratch, caplog):
    net = Network(scratch, quadratic("fedavg", p=1.0))
    net.server.jobs([0])
    with caplog.at_level(logging.WARNING, "fedswe.deploy"):
        for _ in range(300):
            net.server.receive(0, b"flood")
    assert len(caplog.records) == 5
    assert "only counted" in caplog.records[-1].getMessage()
    net.close()
    assert net.server.committed.rejected == {0: {"malformed": 300}}


def test_a_log_that_cannot_be_written_is_one_line(scratch):
    (scratch / LOG).mkdir()
    with pytest.raises(FedsweError, match="cannot write"), log_file.log_file(scratch):
        pass
