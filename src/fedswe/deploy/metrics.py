"""Metrics in the text format of Prometheus and a health check, served on loopback from a thread of the server.

GET /metrics     numbers of the run; nothing of a client but counts
GET /healthz     200 while rounds are committed in time (or the run is paused), 503 with the reason otherwise
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Literal

from fedswe.deploy.log_file import log
from fedswe.deploy.monitor import Monitor

_NOT_SCORES = ("round", "seconds", "available", "reported", "echo_mean", "echo_max")


@dataclass(frozen=True)
class Metric:
    name: str
    kind: Literal["gauge", "counter"]
    help: str
    value: float | None = None
    label: str = ""
    by_label: Mapping[str, float] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        if self.value is not None:
            yield f"{self.name} {_number(self.value)}"
        for label, value in sorted(self.by_label.items()):
            yield f'{self.name}{{{self.label}="{_escaped(label)}"}} {_number(value)}'


def metrics(monitor: Monitor) -> list[Metric]:
    """All metrics of a server now."""
    totals, activity, scores = monitor.totals, monitor.activity, monitor.scores
    scored = {name: value for name, value in scores.items() if name not in _NOT_SCORES}
    return [
        Metric("fedswe_info", "gauge", "The version of the server.", None, "version", {version("fedswe"): 1}),
        Metric("fedswe_rounds_committed", "gauge", "Rounds of the run, also those of earlier servers.", totals.rounds),
        Metric("fedswe_round_seconds_last", "gauge", "From the first job to the commit.", totals.last_seconds),
        Metric("fedswe_round_seconds_total", "counter", "The same, of all rounds.", totals.seconds),
        Metric("fedswe_write_seconds_total", "counter", "Durable writes of all rounds.", totals.write_seconds),
        Metric("fedswe_last_commit_age_seconds", "gauge", "Since the last commit, start or resume.", monitor.age),
        Metric("fedswe_last_commit_age_bound_seconds", "gauge", "Age at which /healthz answers 503.", monitor.bound),
        Metric("fedswe_members", "gauge", "Clients of the run, m.", monitor.m),
        Metric("fedswe_clients_connected", "gauge", "Members that are connected.", len(activity.connected)),
        Metric("fedswe_clients_needed", "gauge", "Connected clients that a round needs.", activity.needed),
        Metric("fedswe_clients_evicted", "gauge", "Members that are not asked.", monitor.evicted),
        Metric("fedswe_clients_silent", "gauge", "Members that are connected and do not answer.", len(activity.silent)),
        Metric("fedswe_reports_merged_total", "counter", "Merged reports.", totals.merged),
        Metric("fedswe_jobs_declined_total", "counter", "Jobs that clients declined.", totals.declined),
        Metric(
            "fedswe_messages_rejected_total", "counter", "Rejected messages.", None, "reason", totals.by_reason()
        ),
        Metric("fedswe_bytes_total", "counter", "Bytes of messages.", None, "kind", totals.traffic),
        Metric("fedswe_evaluated_round", "gauge", "Rounds before the last evaluation.", scores.get("round", math.nan)),
        Metric("fedswe_score", "gauge", "Scores of the last evaluation.", None, "name", scored),
        Metric("fedswe_disk_free_bytes", "gauge", "Where the run is stored.", monitor.disk_free()),
        Metric("fedswe_paused", "gauge", "1 if an operator has paused the run.", activity.doing == "paused"),
    ]  # fmt: skip


def exposition(found: Iterable[Metric]) -> str:
    return "\n".join(line for metric in found for line in metric.lines()) + "\n"


@contextmanager
def serve_metrics(monitor: Monitor, port: int) -> Iterator[None]:
    """Answer requests on 127.0.0.1 while the context lasts; nothing with port 0. A port in use is one warning."""
    if not port:
        yield
        return
    try:
        server = _Server(("127.0.0.1", port), _handler(monitor))
    except OSError as error:
        log.warning("no metrics: port %d cannot be used (%s): choose another deploy.metrics_port", port, error.strerror)
        yield
        return
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that keeps its connection open must not keep the server from ending

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is nothing to report."""


def _handler(monitor: Monitor) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0  # seconds that a connection may be idle
        server_version, sys_version = "fedswe", ""

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(200, exposition(metrics(monitor)), "text/plain; version=0.0.4; charset=utf-8")
                case "/healthz":
                    health = monitor.health()
                    self._answer(200 if health.ok else 503, health.reason + "\n")
                case _:
                    self._answer(404, "there are /metrics and /healthz\n")

        def _answer(self, code: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            content = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """No line for each request."""

    return Handler


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() else repr(value)
