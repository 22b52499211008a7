"""The report as a page that follows its directories while runs go on, for browsers on this machine only."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from fedswe.errors import FedsweError, first_line
from fedswe.report import is_known, report_on
from fedswe.report.page import Report, to_html

PORT = 8765  # if it is free and no other is asked for
_PAUSE = 3.0  # seconds between two looks at the directories
_TABLES = (".csv", ".parquet", ".db", ".db-wal")
_SHARE = 5  # between two looks lie so many times the seconds that the last page took
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page says the rest
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Refresh": "5",
}


class ReportServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1 with this port; without one, with the usual port or any that is free."""

    daemon_threads = True

    def __init__(self, roots: Sequence[Path], port: int | None) -> None:
        try:
            super().__init__(("127.0.0.1", PORT if port is None else port), _Handler)
        except OSError as error:
            if port is not None:
                why = f"cannot listen on port {port} of 127.0.0.1 ({error.strerror})"
                raise FedsweError(f"{why}: choose another --port") from None
            super().__init__(("127.0.0.1", 0), _Handler)
        self.hosts = [f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")]
        self._roots, self._lock, self._next = roots, Lock(), 0.0
        self._files: object = None
        self._page = b""

    def page(self) -> bytes:
        """Built again when it is asked for and a table has changed."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next:
                found = [path for root in self._roots for path in sorted(root.rglob("*.*"))]
                files = [(path, path.stat().st_mtime_ns) for path in found if path.suffix in _TABLES]
                if files != self._files:
                    self._page, self._files = to_html(self._report()).encode(), files
                ended = time.monotonic()
                self._next = ended + max(_PAUSE, _SHARE * (ended - began))
            return self._page

    def _report(self) -> Report:
        """About the directories, or what is in them; none of their code is run, since nobody asked for it."""
        known = [[root] if is_known(root) else sorted(filter(is_known, root.glob("*/"))) for root in self._roots]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that runs are not finished
                return report_on([path for paths in known for path in paths], imports=False)
        except Exception as error:  # a file may be incomplete just now, and the next look finds it whole
            why = str(error) if isinstance(error, FedsweError) else first_line(error)
            return Report("Nothing to show yet", [f"Nothing is evaluated yet: {why}."])


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    timeout = 10

    def do_GET(self) -> None:
        # A page of another site can make a name of its own stand for 127.0.0.1 (DNS rebinding): the browser sends it.
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            self.send_error(421, "this server answers to 127.0.0.1 and localhost only")
        elif self.path != "/":
            self.send_error(404)
        else:
            content = self.server.page()
            self.send_response(200)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # a browser that has gone
                self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Requests are not printed."""
