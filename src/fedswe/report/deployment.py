"""What a report says about a deployment, from its ledger: rounds, clients, rejected messages, echoes, traffic."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedswe.availability.runs import Runs
from fedswe.availability.statistics import Record
from fedswe.deploy import ledger
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.evaluation import history
from fedswe.deploy.ledger import Contents, merged_mask
from fedswe.deploy.membership import Membership
from fedswe.deploy.status import ClientStatus, Status, read_status
from fedswe.errors import require
from fedswe.experiment import configuration
from fedswe.experiment.experiment import Evaluate, Experiment
from fedswe.figures.measured import MeasuredRun, checked
from fedswe.plotting import Panel, Series
from fedswe.report.blocks import Block, Section, Table, listed
from fedswe.report.charts import Curves, Key, Switch, View
from fedswe.report.clients import Clients, availability_blocks


def is_deployment(path: Path) -> bool:
    return (path / ledger.FILE).is_file() and (path / DEPLOYMENT_FILE).is_file()


def measured(path: Path) -> list[MeasuredRun]:
    """Its evaluations as those of a run; none before the first."""
    contents = ledger.read(path / ledger.FILE)
    if not contents.rows:
        return []
    config = {"seed": Experiment.seed, **configuration.read(path / DEPLOYMENT_FILE)}
    config.pop("deploy", None)
    config.setdefault("availability", {"name": "recorded"})
    given = config.get("evaluate", {})
    require(isinstance(given, dict), f"{path / DEPLOYMENT_FILE}: evaluate must be a section")
    config["evaluate"] = {"model": Evaluate().model, **given}
    return [MeasuredRun(str(path), *checked(str(path), config, history(contents.rows)), {})]


def deployment_sections(path: Path) -> tuple[list[str], list[Section]]:
    status, contents = read_status(path), ledger.read(path / ledger.FILE)
    name = path.resolve().parent.name if path.resolve().name == "run" else path.resolve().name
    blocks: list[Block] = [_clients(status)]
    if status.totals.rejected:
        blocks.append(_rejected(status))
    if contents.entries:
        blocks += availability_blocks(_available(contents))
        blocks.append(_rounds(contents))
    if status.totals.traffic:
        rows = [[kind, f"{size / 1e3:,.1f}"] for kind, size in sorted(status.totals.traffic.items())]
        blocks.append(Table("Traffic", ["messages", "kB"], rows))
    return _summary(name, status, contents), [Section(f"Deployment {name}", blocks)]


def _summary(name: str, status: Status, contents: Contents) -> list[str]:
    totals = status.totals
    sentences = [f"Deployment {name}: {totals.rounds} of {status.rounds} rounds committed, {status.members} clients."]
    if totals.rounds:
        sentences.append(
            f"A round took {totals.seconds / totals.rounds:.1f} s and merged {totals.merged / totals.rounds:.1f} "
            f"reports on average; {totals.rejected.total()} messages were rejected."
        )
    never = [str(c.client) for c in status.clients if c.last_merge is None and c.state == "member"]
    if never and contents.entries:
        sentences.append(f"Never merged: {'client' if len(never) == 1 else 'clients'} {listed(never)}.")
    sentences += [f"Alarm: {alarm.name}: {alarm.message}." for alarm in status.alarms]
    return sentences


def _clients(status: Status) -> Table:
    rows = [_client(client) for client in status.clients]
    columns = ["client", "state", "last merged in round", "rounds absent since", "messages rejected", "reason"]
    return Table("Clients", columns, rows, words=2)


def _client(client: ClientStatus) -> list[str]:
    merged = "never" if client.last_merge is None else str(client.last_merge + 1)
    rejected = sum(client.rejected.values())
    return [str(client.client), client.state, merged, str(client.absent_rounds), str(rejected), client.reason]


def _rejected(status: Status) -> Table:
    rows = [
        ["unknown" if client < 0 else str(client), reason, str(times)]
        for (client, reason), times in sorted(status.totals.rejected.items())
    ]
    return Table("Rejected messages", ["client", "reason", "messages"], rows, words=2)


def _available(contents: Contents) -> Clients:
    mask = merged_mask(contents.entries, Membership.of(contents).numbers)
    rounds, m = mask.shape
    return Clients("recorded", Record(Runs.drawn(lambda t: mask[t], m, rounds)), been="merged")


def _rounds(contents: Contents) -> Curves:
    """Numbers of every committed round."""
    entries = contents.entries
    x = [float(entry.t + 1) for entry in entries]
    columns: dict[str, tuple[str, list[float]]] = {
        "merged": ("reports merged", [len(e.merged) for e in entries]),
        "available": ("clients available", [e.available for e in entries]),
        "echo": ("mean echo of the merged reports", [_echo(e.t, e.merged) for e in entries]),
        "took": ("seconds", [e.took for e in entries]),
        "rejected": ("messages rejected", [sum(sum(r.values()) for r in e.rejected.values()) for e in entries]),
    }
    views: dict[Key, View] = {
        (key,): View(Panel("", [Series("all clients", x, [values])], name), {"rounds": [x]})
        for key, (name, values) in columns.items()
    }
    switch = Switch("column", {key: name for key, (name, _) in columns.items()})
    return Curves("Rounds of the deployment", [switch], {"rounds": "round"}, views)


def _echo(t: int, merged: dict[int, int]) -> float:
    return float(np.mean([t - before for before in merged.values()])) if merged else float("nan")
