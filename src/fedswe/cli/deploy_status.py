"""The command `fedswe deploy status`; it works without Flower, and while a server runs."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json
from fedswe.cli.deploy_arguments import RunFolder
from fedswe.cli.deploy_printing import round_line, size
from fedswe.cli.run import headline
from fedswe.errors import printable

if TYPE_CHECKING:
    from fedswe.deploy.status import ClientStatus, Status

_SHOWN = 5  # latest rounds
_CLIENTS = 30  # of more clients, only those with something to say are printed


def status_command(run: RunFolder, as_json: Json = False) -> None:
    """Say how far a run is, what its server does, how its clients fare, and what is wrong."""
    from fedswe.deploy.status import read_status

    status = read_status(run)
    if as_json:
        print_json(_table(status))
        return
    totals = status.totals
    each = f", {totals.seconds / totals.rounds:.1f} s each" if totals.rounds else ""
    age = f", the last {_ago(status.last_commit)}" if status.last_commit else ""
    console.print(f"rounds    {totals.rounds} of {status.rounds} committed{each}{age}")
    console.print(printable(f"server    {_server(status)}"))
    for request in status.requests:
        about = f" client {request.client}" if request.client >= 0 else ""
        console.print(printable(f"request   {request.action}{about}, not applied yet"))
    for entry in status.recent[-_SHOWN:]:
        console.print(printable(f"{round_line(entry, status.rounds)}  {entry.took:.1f} s"))
    if status.scores:
        console.print(printable(f"scores    after round {status.scores['round']:.0f}: {headline(status.scores)}"))
    served = f"{status.served} ({status.chosen})" if status.chosen else status.served
    console.print(printable(f"served    {served.replace('_', ' ')}"))
    traffic = ", ".join(f"{kind} {size(n)}" for kind, n in sorted(totals.traffic.items()))
    console.print(printable(f"traffic   {traffic or 'nothing'}"))
    if totals.rounds:
        console.print(
            f"writes    {1000 * totals.write_seconds / totals.rounds:.1f} ms per round, {size(status.disk_free)} free"
        )
    console.print(f"clients   {status.members} members")
    all_ = len(status.clients) <= _CLIENTS
    for client in status.clients:
        if all_ or client.state == "evicted" or client.silent or client.rejected:
            console.print(printable(_client(client)))
    for alarm in status.alarms:
        console.print(printable(f"ALARM     {alarm.name}: {alarm.message}"))
    if not status.alarms:
        console.print("alarms    none")


def _server(status: Status) -> str:
    if status.running is None:
        return "unknown: the directory cannot be locked"
    if not status.running:
        done = status.totals.rounds >= status.rounds
        why = "finished" if done else "paused" if status.paused else "stopped by an operator" if status.stopped else ""
        return "not running" + (f", the run is {why}" if why else "")
    activity = status.activity
    if activity is None:
        return "running" + (", paused" if status.paused else "")
    there = f"{len(activity.connected)} clients connected"
    return f"running, {activity.doing}, round {activity.round + 1}, {there}"


def _client(client: ClientStatus) -> str:
    words: list[str] = [client.state] if client.state != "member" else []
    words += ["silent"] if client.silent else ["connected"] if client.connected else []
    merged = "never merged" if client.last_merge is None else f"last merged in round {client.last_merge + 1}"
    absent = f"absent for {client.absent_rounds} rounds" if client.absent_rounds and client.state != "left" else ""
    refused = ", ".join(f"{reason} ({n})" for reason, n in client.rejected.items())
    rejected = f"rejected: {refused}" if refused else ""
    return f"client {client.client:<3}" + ", ".join(filter(None, [*words, merged, absent, rejected, client.reason]))


def _ago(then: float) -> str:
    seconds = max(time.time() - then, 0.0)
    return (
        f"{seconds:.0f} s ago"
        if seconds < 120
        else f"{seconds / 60:.0f} min ago"
        if seconds < 7200
        else (f"{seconds / 3600:.0f} h ago")
    )


def _table(status: Status) -> dict[str, object]:
    """Rounds are counted from 1, as in the text."""
    totals, activity = status.totals, status.activity
    clients = [replace(c, last_merge=None if c.last_merge is None else c.last_merge + 1) for c in status.clients]
    unknown = {reason: times for (client, reason), times in totals.rejected.items() if client < 0}
    return {
        "rounds": status.rounds,
        "committed": totals.rounds,
        "clients": status.members,
        "bytes": dict(sorted(totals.traffic.items())),
        "write_ms_per_round": 1000 * totals.write_seconds / totals.rounds if totals.rounds else None,
        "seconds_per_round": totals.seconds / totals.rounds if totals.rounds else None,
        "last_commit": status.last_commit,
        "recent_rounds": [
            {"round": entry.t + 1, "seconds": entry.took, "time": entry.time, "merged": sorted(entry.merged)}
            for entry in status.recent
        ],
        "rejected_of_unknown_clients": unknown,
        "client_states": [asdict(client) for client in clients],
        "scores": status.scores,
        "served": status.served,
        "chosen": status.chosen,
        "running": status.running,
        "paused": status.paused,
        "stopped": status.stopped,
        "activity": asdict(replace(activity, round=activity.round + 1)) if activity else None,
        "requests": [asdict(request) for request in status.requests],
        "disk_free": status.disk_free,
        "alarms": [asdict(alarm) for alarm in status.alarms],
    }  # fmt: skip
