"""Requests of an operator to the server of a run: small files in the private folder RUN/control.

A command writes a request as a whole file. The server reads the requests in the order of their names between two
rounds, and while it is paused or waits for clients. It applies each and removes its file. If no server runs, the next
one does it. A request that is damaged, too large or not of the owner of the run is moved to control/refused and logged.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from fedswe.deploy.log_file import fields, log
from fedswe.errors import FedsweError, require
from fedswe.results.files import cannot_write, write_whole

FOLDER, _REFUSED = "control", "refused"
_LARGEST = 4096  # bytes of a request
_LONGEST = 200  # characters of a reason
_MOST = 1000  # requests that are read at a time

RequestedAction = Literal["pause", "resume", "stop", "evict", "admit", "leave", "join"]
ABOUT_A_CLIENT = ("evict", "admit", "leave", "join")


@dataclass(frozen=True)
class Request:
    action: RequestedAction
    client: int = -1
    reason: str = ""

    def __post_init__(self) -> None:
        require(self.action in get_args(RequestedAction), f"unknown request {str(self.action)[:20]!a}")
        require(type(self.client) is int and -1 <= self.client < 10**9, "the client must be a number")
        require((self.client >= 0) == (self.action in ABOUT_A_CLIENT), f"{self.action} with a wrong client")
        require(
            isinstance(self.reason, str) and len(self.reason) <= _LONGEST and self.reason.isprintable(),
            f"the reason must be one line of at most {_LONGEST} printable characters",
        )


class RequestFolder:
    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER

    def submit(self, request: Request) -> None:
        """Leave a request for the server."""
        owner = self._folder.parent.stat().st_uid
        require(owner == os.geteuid(), f"{self._folder.parent} belongs to another user: give the command as that user")
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise cannot_write(self._folder, error) from None
        self._require_private()
        write_whole(self._folder / name, json.dumps(asdict(request)) + "\n")

    def pending(self) -> list[tuple[Path, Request]]:
        """The requests that wait, oldest first. Files that are none are refused."""
        found = []
        for path in self._files():
            try:
                found.append((path, _read(path)))
            except FileNotFoundError:  # somebody has taken the request back
                continue
            except (FedsweError, OSError, ValueError, TypeError, RecursionError) as error:
                self.refuse(path, str(error) if isinstance(error, FedsweError) else "it cannot be read")
        return found

    def waiting(self) -> list[Request]:
        """The requests that wait, for a reader that leaves all files as they are."""
        found = []
        for path in self._files():
            with suppress(FedsweError, OSError, ValueError, TypeError, RecursionError):
                found.append(_read(path))
        return found

    def joining(self) -> int:
        """How many clients wait to join."""
        return sum(request.action == "join" for request in self.waiting())

    def refused(self) -> int:
        """How many files were refused."""
        try:
            return len(os.listdir(self._folder / _REFUSED))
        except OSError:
            return 0

    def refuse(self, path: Path, reason: str) -> None:
        """Move a file to control/refused and say why."""
        log.warning(
            "a request in %s is not applied (%s): see %s/%s",
            self._folder,
            reason,
            _REFUSED,
            path.name,
            extra=fields("request refused"),
        )
        try:
            (self._folder / _REFUSED).mkdir(mode=0o700, exist_ok=True)
            os.replace(path, self._folder / _REFUSED / path.name)
        except OSError:
            with suppress(OSError):
                path.unlink()

    def _files(self) -> list[Path]:
        try:
            self._require_private()
        except FileNotFoundError:
            return []
        # Folders are left alone: a request is a file, and opening a folder does not close its handle again.
        return sorted(path for path in self._folder.glob("*.json") if not path.is_dir())[:_MOST]

    def _require_private(self) -> None:
        """Nobody else may write requests."""
        found = os.lstat(self._folder)
        require(
            stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022,
            f"{self._folder} can be written by others: make it yours and `chmod 700` it",
        )


def _read(path: Path) -> Request:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        require(stat.S_ISREG(found.st_mode), "it is not a file")
        require(found.st_uid == os.geteuid(), "it is of another user")
        require(found.st_size <= _LARGEST, "it is too large")
        table: Any = json.loads(file.read(_LARGEST + 1))
    require(isinstance(table, dict) and table.keys() <= {"action", "client", "reason"}, "it is not a request")
    return Request(**table)
