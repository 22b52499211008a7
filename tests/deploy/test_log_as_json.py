"""server.log as JSON: one object per line, whatever a client sends."""

import json
from datetime import datetime

from fedswe.deploy import InMemoryTransport, Rounds
from fedswe.deploy.log_file import LOG, fields, log, log_file, warning_text
from fedswe.deploy.packet import Packet
from fedswe.deploy.requests import Request, RequestFolder
from tests.deploy.parts import Network, quadratic

KEYS = ["time", "level", "event", "round", "client", "message"]


def lines(folder):
    found = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    for each in found:
        assert list(each)[: len(KEYS)] == KEYS
        assert datetime.fromisoformat(each["time"]).utcoffset().total_seconds() == 0
    return found


class Lying(InMemoryTransport):
    """Client 1 sends what is no report, and declines with a text of several lines."""

    def poll(self, timeout):
        for arrival in super().poll(timeout):
            if arrival.client == 1 and arrival.kind == "job" and arrival.packet is not None:
                header = Packet.from_bytes(arrival.packet).header
                reason = 'no"\n{"level": "forged"}\x1b[31m'
                yield type(arrival)(1, "job", arrival.round, b"nothing")
                packet = Packet("decline", {**header, "reason": reason}, {}).to_bytes()
                yield type(arrival)(1, "job", arrival.round, packet)
            else:
                yield arrival


def test_a_run_as_json(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=2, m=2, p=1.0, simulate_absence=False, log_format="json"))
    transport = Lying(net.deployment, scratch / "liars", net.problem)
    RequestFolder(net.server.directory).submit(Request("evict", 0, "why"))
    RequestFolder(net.server.directory).submit(Request("admit", 0))
    Rounds(net.server, transport).run()
    found = lines(net.server.directory)
    events = [(line["event"], line["level"], line["round"], line["client"]) for line in found]
    assert events == [
        ("start", "info", 0, None),
        ("evict", "warning", 0, 0),
        ("admit", "warning", 0, 0),
        ("rejected", "warning", 0, 1),
        ("declined", "warning", 0, 1),
        ("commit", "info", 0, None),
        ("rejected", "warning", 1, 1),
        ("declined", "warning", 1, 1),
        ("commit", "info", 1, None),
        ("finished", "info", 2, None),
    ]
    shown = [warning_text(line) for line in (net.server.directory / LOG).read_text().splitlines()]
    assert [bool(text) for text in shown] == [line["level"] == "warning" for line in found]
    assert shown[1] == f"{found[1]['time']} {found[1]['message']}"
    assert warning_text("a line of text") == "a line of text"
    assert found[1]["message"] == "round 0: client 0 is evicted by an operator: why"
    assert r"no\"\n" in json.dumps(found[4]["message"]) or r"\n" in found[4]["message"]


def test_an_exception_is_one_line_with_its_traceback(scratch):
    with log_file(scratch, "json"):
        try:
            raise ValueError("a\nb")
        except ValueError:
            log.warning("it failed", exc_info=True, extra=fields("failed", 3, 2))
        log.warning("a message without fields")
    failed, plain = lines(scratch)
    assert (failed["event"], failed["round"], failed["client"]) == ("failed", 3, 2)
    assert failed["traceback"][0] == "Traceback (most recent call last):"
    assert (plain["event"], plain["round"], plain["client"]) == ("note", None, None)


def test_text_has_warnings_only(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=2, m=2))
    net.finish()
    assert (net.server.directory / LOG).read_text() == ""
