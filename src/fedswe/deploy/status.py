"""The state of a run, from its ledger and from what its server says it is doing; and alarms.

Alarms have the names under which docs/runbook.md says what they mean and what to do.
"""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedswe import registry
from fedswe.core.algorithm import Algorithm
from fedswe.deploy import ledger
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment, served_by_default
from fedswe.deploy.durable_files import in_use_now
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.membership import Membership
from fedswe.deploy.monitor import Activity, longest_round, no_progress, read_activity
from fedswe.deploy.requests import Request, RequestFolder
from fedswe.deploy.totals import Totals
from fedswe.errors import FedsweError, require
from fedswe.experiment import configuration
from fedswe.experiment.experiment import output_label
from fedswe.kinds import KINDS
from fedswe.results.history import Row

RECENT = 10  # last rounds whose rejected messages are an alarm
_LITTLE_SPACE = 1_000_000_000  # bytes

AlarmName = Literal[
    "server not running",
    "no progress",
    "not enough clients",
    "client silent",
    "client evicted",
    "messages rejected",
    "model not finite",
    "little disk space",
    "request refused",
]


@dataclass(frozen=True)
class Alarm:
    name: AlarmName
    message: str


@dataclass(frozen=True)
class ClientStatus:
    client: int
    state: Literal["member", "evicted", "left"]
    connected: bool | None  # None if no server runs
    silent: bool
    last_merge: int | None  # a round
    absent_rounds: int  # since then, or since the beginning
    rejected: dict[str, int]  # reason -> messages
    reason: str  # of the eviction or of leaving


@dataclass(frozen=True)
class Status:
    rounds: int  # that the run shall have
    totals: Totals
    recent: list[Entry]  # the last rounds
    members: int
    clients: list[ClientStatus]
    scores: Row  # the last evaluation
    served: str  # the model that `fedswe deploy export` writes
    chosen: str  # if that is a choice such as best: the model it names
    running: bool | None  # None if that is unknown
    paused: bool
    stopped: bool
    activity: Activity | None  # of the running server
    last_commit: float | None  # seconds since 1970
    requests: list[Request]  # that wait to be applied
    disk_free: int
    alarms: list[Alarm]


def read_status(run: Path, read: ledger.Reader | None = None) -> Status:
    """With a reader that was used before, only the lines that were added to the ledger are read."""
    contents = (read or ledger.Reader(run / ledger.FILE)).read()
    table: dict[str, Any] = configuration.read(run / DEPLOYMENT_FILE)
    rounds, deadline = _settings(run, table)
    scores = dict(contents.rows[-1]) if contents.rows else {}
    membership, t = Membership.of(contents), len(contents.entries)
    running = in_use_now(run)
    activity = read_activity(run) if running else None
    totals = Totals.of(contents.entries)
    clients = _clients(contents, membership, totals, activity)
    control = RequestFolder(run)
    last_commit = contents.entries[-1].time if contents.entries else None
    status = Status(
        rounds=rounds,
        totals=totals,
        recent=contents.entries[-RECENT:],
        members=membership.count(t),
        clients=clients,
        scores=scores,
        served=_served(table),
        chosen=_chosen(table, scores),
        running=running,
        paused=contents.paused,
        stopped=contents.stopped,
        activity=activity,
        last_commit=last_commit,
        requests=_requests(control),
        disk_free=shutil.disk_usage(run).free,
        alarms=[],
    )
    late = no_progress(time.time() - contents.progress, longest_round(deadline)) if contents.progress else ""
    status.alarms.extend(_alarms(status, control.refused(), late))
    return status


def _clients(
    contents: Contents, membership: Membership, totals: Totals, activity: Activity | None
) -> list[ClientStatus]:
    t, members = len(contents.entries), membership.members(len(contents.entries))
    last: dict[int, int] = {}
    for entry in contents.entries:
        last |= dict.fromkeys(entry.merged, entry.t)
    reasons = {change.client: change.reason for change in contents.changes if change.action in ("evict", "leave")}
    joined = {change.client: change.t for change in contents.changes if change.action == "join"}
    rejected: dict[int, dict[str, int]] = {}
    for (client, reason), times in totals.rejected.items():
        rejected.setdefault(client, {})[reason] = times
    found = []
    for client in range(membership.numbers):
        state: Literal["member", "evicted", "left"] = "member" if client in members else "left"
        state = "evicted" if state == "member" and client in contents.evicted else state
        since = last.get(client, joined.get(client, 0) - 1)
        found.append(
            ClientStatus(
                client=client,
                state=state,
                connected=None if activity is None else client in activity.connected,
                silent=activity is not None and client in activity.silent,
                last_merge=last.get(client),
                absent_rounds=t - 1 - since,
                rejected=rejected.get(client, {}),
                reason="" if state == "member" else reasons.get(client, ""),
            )
        )
    return found


def _alarms(status: Status, refused: int, late: str) -> list[Alarm]:
    found = []
    activity = status.activity
    unfinished = status.totals.rounds < status.rounds
    if unfinished and status.running is False and not status.paused and not status.stopped:
        found.append(Alarm("server not running", "the run is not finished and no server runs"))
    if unfinished and status.running and not status.paused and late:
        found.append(Alarm("no progress", late))
    if activity is not None and activity.doing == "waiting for clients":
        there = len(activity.connected)
        found.append(Alarm("not enough clients", f"{there} clients are connected, a round needs {activity.needed}"))
    for client in status.clients:
        if client.silent:
            found.append(Alarm("client silent", f"client {client.client} is connected and does not answer"))
        if client.state == "evicted":
            why = f": {client.reason}" if client.reason else ""
            found.append(Alarm("client evicted", f"client {client.client} is not asked{why}"))
    recent = Totals.of(status.recent)
    for (client_number, reason), times in sorted(recent.rejected.items()):
        who = f"client {client_number}" if client_number >= 0 else "an unknown client"
        rounds = f"the last {len(status.recent)} rounds"
        found.append(Alarm("messages rejected", f"{times} of {who} in {rounds}, reason: {reason}"))
    for name, value in status.scores.items():
        if name.endswith("loss") and not math.isfinite(value):
            found.append(Alarm("model not finite", f"{name} is {value}"))
    if status.disk_free < _LITTLE_SPACE:
        found.append(Alarm("little disk space", f"{status.disk_free / 1e6:.0f} MB are free"))
    if refused:
        found.append(
            Alarm("request refused", f"{refused} requests were not applied: see control/refused and server.log")
        )
    return found


def _requests(control: RequestFolder) -> list[Request]:
    try:
        return control.waiting()
    except FedsweError:  # the folder is another user's
        return []


# The settings are read without building the experiment, whose task may not be installed here.
def _served(table: dict[str, Any]) -> str:
    """The name of the served model."""
    if isinstance(serve := _entry(table, "evaluate", "serve"), str) and serve:
        return output_label(serve)
    name = _entry(table, "algorithm", "name")
    known = KINDS["algorithm"].builtin
    return served_by_default(registry.resolve("algorithm", name) if name in known else Algorithm)


def _chosen(table: dict[str, Any], scores: Row) -> str:
    """What the served model is a choice of, by the last evaluation; empty if it is none."""
    models, position = _entry(table, "evaluate", "model"), scores.get(f"{_served(table)}_choice")
    if position is None or not isinstance(models, list) or not 0 <= position < len(models):
        return ""
    return output_label(str(models[int(position)]))


def _entry(table: dict[str, Any], section: str, key: str) -> Any:
    found = table.get(section)
    return found.get(key) if isinstance(found, dict) else None


def _settings(run: Path, table: dict[str, Any]) -> tuple[int, float]:
    """Rounds and deadline."""
    options = table.get("deploy")
    rounds = table.get("rounds")
    deadline = options.get("deadline", Deployment.deadline) if isinstance(options, dict) else Deployment.deadline
    require(
        type(rounds) is int and 0 <= rounds < 10**12 and isinstance(deadline, int | float) and 0 < deadline < 10**12,
        f"{run / DEPLOYMENT_FILE} does not say how many rounds, or has no valid deadline: restore it from a backup",
    )
    return int(rounds or 0), float(deadline)
