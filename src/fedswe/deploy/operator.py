"""Applies the requests of an operator (``control``) to a running server. Each that changes something is a line of the
ledger, pause and resume too: a server that is restarted must stay paused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fedswe.deploy.control import Control, Request
from fedswe.deploy.log_file import fields, log
from fedswe.deploy.server import ServerEndpoint
from fedswe.errors import FedsweError


class Operator:
    def __init__(self, server: ServerEndpoint) -> None:
        self._server, self._control = server, Control(server.directory)
        self._said: set[str] = set()

    def apply(self) -> None:
        """Apply the requests that have arrived. No round may be open."""
        for path, request in self._pending():
            if request.action == "stop" and path.stat().st_mtime < self._server.began:
                path.unlink()  # it was for the server before this one
                continue
            if request.action == "join" and request.client >= self._server.problem.m:
                needed = request.client + 1
                self._warn_once(f"client {request.client} joins when the server starts with a task of {needed} clients")
                continue
            try:
                self._server.require_possible(request.action, request.client)
            except FedsweError as error:
                self._control.refuse(path, str(error))
                continue
            if self._has_effect(request):
                self._server.change(request.action, request.client, request.reason)
                about = fields(request.action, self._server.t, request.client)
                log.warning("round %d: %s", self._server.t, _said(request), extra=about)
            with suppress(FileNotFoundError):
                path.unlink()

    def _has_effect(self, request: Request) -> bool:
        server = self._server
        match request.action:
            case "evict" | "admit":
                return (request.client in server.evicted) != (request.action == "evict")
            case "pause" | "resume":
                return server.paused != (request.action == "pause")
        return True

    def _pending(self) -> list[tuple[Path, Request]]:
        try:
            return self._control.pending()
        except FedsweError as error:  # others can write requests: none is read
            self._warn_once(str(error))
            return []

    def _warn_once(self, message: str) -> None:
        if message not in self._said:
            log.warning("%s", message)
        self._said.add(message)


def _said(request: Request) -> str:
    done = {
        "evict": "is evicted", "admit": "is admitted again", "leave": "has left for good", "join": "has joined",
        "pause": "the run is paused", "resume": "the run is resumed", "stop": "the server is stopped",
    }[request.action]  # fmt: skip
    who = f"client {request.client} " if request.client >= 0 else ""
    return f"{who}{done} by an operator" + (f": {request.reason}" if request.reason else "")
