"""Applies the requests of an operator (``control``) to a running server. Each that changes something is a line of the
ledger, pause and resume too: a server that is restarted must stay paused."""

from __future__ import annotations

from pathlib import Path

from fedswe.deploy.ledger_lines import Action
from fedswe.deploy.log_file import fields, log
from fedswe.deploy.membership import require_joining, require_leaving
from fedswe.deploy.requests import Request, RequestFolder
from fedswe.deploy.server import ServerEndpoint
from fedswe.errors import FedsweError, require


class AppliedRequests:
    def __init__(self, server: ServerEndpoint) -> None:
        self._server, self._control = server, RequestFolder(server.directory)
        self._said: set[str] = set()

    def apply(self) -> None:
        """Apply the requests that have arrived. No round may be open."""
        for path, request in self._pending():
            self._apply(path, request)

    def _apply(self, path: Path, request: Request) -> None:
        server = self._server
        if request.action == "join" and request.client >= server.problem.m:
            needed = request.client + 1
            self._warn_once(f"client {request.client} joins when the server starts with a task of {needed} clients")
            return
        if self._has_effect(path, request):
            try:
                require_possible(server, request.action, request.client)
            except FedsweError as error:
                self._control.refuse(path, str(error))
                return
            server.change(request.action, request.client, request.reason)
            about = fields(request.action, server.t, request.client)
            log.warning("round %d: %s", server.t, _said(request), extra=about)
        path.unlink(missing_ok=True)

    def _has_effect(self, path: Path, request: Request) -> bool:
        """Whether something changes. Not so if an earlier server has applied the request and ended before it could
        remove the file."""
        server, client = self._server, request.client
        known, members = client < server.membership.numbers, server.membership.members(server.t)
        match request.action:
            case "evict" | "admit":
                return (client in server.evicted) != (request.action == "evict") or client not in members
            case "pause" | "resume":
                return server.paused != (request.action == "pause")
            case "leave":
                return client in members or not known
            case "join":
                return not known
            case "stop":
                return _given_since(path, server.began)  # otherwise it was for an earlier server

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


def require_possible(server: ServerEndpoint, action: Action, client: int) -> None:
    """Refuse a decision that has no meaning in this run."""
    membership, needed = server.membership, max(server.deployment.min_clients, 1)
    if action in ("evict", "admit", "leave"):
        require(client in membership.members(server.t), f"client {client} is not a member of the run")
    if action == "leave":
        require_leaving(server.algorithm)
        others = len(server.participants - {client})
        require(
            others >= needed,
            f"client {client} cannot leave: a round needs {needed} clients, and {others} others take part",
        )
    if action == "join":
        require_joining(server.algorithm, server.problem.loads_by_client, server.deployment.simulate_absence)
        require(
            client == membership.numbers < server.problem.m,
            f"client {client} cannot join: the next number is {membership.numbers}, "
            f"and the task has {server.problem.m} clients",
        )


def _given_since(path: Path, then: float) -> bool:
    try:
        return path.stat().st_mtime >= then
    except FileNotFoundError:  # taken back
        return False


def _said(request: Request) -> str:
    done = {
        "evict": "is evicted", "admit": "is admitted again", "leave": "has left for good", "join": "has joined",
        "pause": "the run is paused", "resume": "the run is resumed", "stop": "the server is stopped",
    }[request.action]  # fmt: skip
    who = f"client {request.client} " if request.client >= 0 else ""
    return f"{who}{done} by an operator" + (f": {request.reason}" if request.reason else "")
