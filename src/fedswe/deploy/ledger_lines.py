"""The lines of a ledger: what each kind holds, as text, and checked when it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from fedswe.deploy.ledger_key import LedgerKey
from fedswe.results.history import Row

VERSION = 2

Action = Literal["evict", "admit", "join", "leave", "pause", "resume", "stop", "rollback", "restore"]


@dataclass(frozen=True)
class Title:
    """The first line."""

    run: str  # random identifier of this run
    plan: str  # digest of the configuration that server and clients share
    start: str  # digest of x^0
    m: int
    version: int = VERSION


@dataclass(frozen=True)
class Entry:
    """A committed round."""

    t: int
    merged: dict[int, int]  # A^t: client -> the round it was merged in before this one (-1: never)
    model: str  # digest of x^{t+1}
    reply: str  # digest of the reply
    down: str = ""  # digest of the data sent to all clients of the round
    jobs: dict[int, str] = field(default_factory=dict)  # digests of the jobs, where the server plans them
    reports: dict[int, str] = field(default_factory=dict)  # digests of what the merged clients sent
    moves: dict[int, float] = field(default_factory=dict)  # how far (L2) each merged client moved in local training
    files: dict[str, str] = field(default_factory=dict)  # name -> digest of each file written for this round
    declined: int = 0
    rejected: dict[int, dict[str, int]] = field(default_factory=dict)  # client -> reason -> number of messages
    traffic: dict[str, int] = field(default_factory=dict)  # "down job", "up report", ... -> bytes since the last commit
    seconds: float = 0.0  # durable writes of this round, and the fsync of the line before
    available: int = 0  # clients that were connected and did not decline
    took: float = 0.0  # seconds from the first job to the commit
    time: float = 0.0  # of the commit, in seconds since 1970 by the server's clock


@dataclass(frozen=True)
class Evaluation:
    """A row of history.csv."""

    row: Row


@dataclass(frozen=True)
class Change:
    """A decision between two rounds, by an operator or by the server."""

    action: Action
    t: int  # the first round it applies to; for rollback and restore the round that is run next
    client: int = -1
    reason: str = ""
    time: float = 0.0


@dataclass(frozen=True)
class Start:
    """A start of the server."""

    t: int  # the first round it runs
    epoch: str
    files: dict[str, str]  # name -> digest of the files it writes at its start
    scores: str = ""  # digest of the task and of what is evaluated: evaluations of equal ones can be compared
    time: float = 0.0


Line = Title | Entry | Evaluation | Change | Start
_KINDS: dict[str, type[Line]] = {
    "run": Title,
    "round": Entry,
    "evaluation": Evaluation,
    "change": Change,
    "start": Start,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


# as text ------------------------------------------------------------------------------------------------
def line_text(line: Line, previous: str, key: LedgerKey) -> bytes:
    body = table_text({"kind": _NAMES[type(line)], **_table(line), "previous": previous})
    return sealed(body, seal) if (seal := key.seal(body)) else body


def sealed(body: bytes, seal: str) -> bytes:
    return body[:-1] + b', "seal": ' + json.dumps(seal).encode() + b"}"


def table_text(table: dict[str, Any]) -> bytes:
    return json.dumps(table, allow_nan=False).encode()


def _table(line: Line) -> dict[str, Any]:
    if isinstance(line, Evaluation):  # JSON has no NaN; scores of a diverged model are not finite
        return {"row": {name: v if math.isfinite(v) else str(v) for name, v in line.row.items()}}
    return asdict(line)


def parsed(table: dict[str, Any]) -> Line:
    kind = table.pop("kind")
    for name, holds in _FIELDS[kind].items():
        demand(holds(table[name]), f"{name} is not what it should be")
    if kind == "round":
        for name in ("merged", "jobs", "reports", "moves", "rejected"):
            table[name] = {int(client): value for client, value in table[name].items()}
    elif kind == "evaluation":
        return Evaluation({name: float(v) if isinstance(v, str) else v for name, v in table.pop("row").items()})
    return _KINDS[kind](**table)


# what the fields of a line may hold ---------------------------------------------------------------------
def _is_text(value: object) -> bool:
    return type(value) is str


def _is_number_of_clients(value: object) -> bool:
    return type(value) is int and 1 <= value <= 10**7


def _is_integer(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 63


def _is_count(value: object) -> bool:
    return _is_integer(value) and value >= 0  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return type(value) is float or _is_integer(value)  # a line with NaN or infinity is not read


def _is_client(value: str) -> bool:
    return value == "-1" or (value.isascii() and value.isdecimal() and len(value) < 19 and value == str(int(value)))


def _is_score(value: object) -> bool:
    return _is_number(value) or value in ("nan", "inf", "-inf")


def _table_of(key: Callable[[str], bool], holds: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: type(value) is dict and all(key(name) and holds(v) for name, v in value.items())


def _is_row(value: object) -> bool:
    scores = value if isinstance(value, dict) else {}
    return (
        _table_of(_is_text, _is_score)(scores) and _is_count(scores.get("round")) and _is_number(scores.get("seconds"))
    )


_by_client_texts, _texts = _table_of(_is_client, _is_text), _table_of(_is_text, _is_text)
_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "run": {"run": _is_text, "plan": _is_text, "start": _is_text, "m": _is_number_of_clients, "version": _is_count},
    "round": {
        **dict.fromkeys(("t", "declined", "available"), _is_integer),
        **dict.fromkeys(("model", "reply", "down"), _is_text),
        **dict.fromkeys(("jobs", "reports"), _by_client_texts),
        **dict.fromkeys(("seconds", "took", "time"), _is_number),
        "merged": _table_of(_is_client, _is_integer),
        "moves": _table_of(_is_client, _is_number),
        "files": _texts,
        "rejected": _table_of(_is_client, _table_of(_is_text, _is_count)),
        "traffic": _table_of(_is_text, _is_integer),
    },
    "evaluation": {"row": _is_row},
    "change": {
        "action": lambda value: _is_text(value) and value in get_args(Action),
        "t": _is_count,
        "client": _is_integer,
        "reason": _is_text,
        "time": _is_number,
    },
    "start": {"t": _is_count, "epoch": _is_text, "files": _texts, "scores": _is_text, "time": _is_number},
}


def demand(condition: object, reason: str) -> None:
    if not condition:
        raise ValueError(reason)
