"""fedswe deploy pause, resume, stop, evict, admit, leave and join: requests to the server of a run.

They also work while no server runs: the next one applies them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.console import console
from fedswe.cli.deploy_arguments import OwnTasks, RunFolder, find_tasks
from fedswe.errors import require

if TYPE_CHECKING:
    from fedswe.deploy.membership import Membership
    from fedswe.deploy.requests import RequestedAction

Client = Annotated[int, typer.Argument(metavar="CLIENT", help="The number of the client, counted from 0")]
Reason = Annotated[str, typer.Option(help="Why, in one line, for the ledger")]


def pause_command(run: RunFolder, reason: Reason = "") -> None:
    """Open no more rounds until `resume`; the open round is finished first."""
    _require_run(run)
    _submit(run, "pause", -1, reason)


def resume_command(run: RunFolder, reason: Reason = "") -> None:
    """Open rounds again after `pause`."""
    _require_run(run)
    _submit(run, "resume", -1, reason)


def stop_command(run: RunFolder, reason: Reason = "") -> None:
    """End the server after the open round; a new server continues the run."""
    from fedswe.deploy.durable_files import in_use_now

    _require_run(run)
    require(in_use_now(run) is not False, f"no server runs on {run}: to keep the next one from opening rounds, pause")
    _submit(run, "stop", -1, reason)


def evict_command(run: RunFolder, client: Client, reason: Reason = "") -> None:
    """Ask a client no more, until `admit`: it counts as absent, and m stays the same."""
    _require_member(run, client)
    _submit(run, "evict", client, reason)


def admit_command(run: RunFolder, client: Client, reason: Reason = "") -> None:
    """Ask an evicted client again."""
    _require_member(run, client)
    _submit(run, "admit", client, reason)


def leave_command(run: RunFolder, client: Client, reason: Reason = "", own: OwnTasks = None) -> None:
    """Remove a client from the run for good: m becomes smaller, its number is not given again."""
    from fedswe.deploy.deployment import FILE, Deployment
    from fedswe.deploy.membership import require_leaving

    _require_member(run, client)
    find_tasks(run, own)
    require_leaving(Deployment.load(run / FILE).experiment.algorithm)
    _submit(run, "leave", client, reason)


def join_command(run: RunFolder, reason: Reason = "", own: OwnTasks = None) -> None:
    """Add a client with the next number to the run: m becomes larger when the server starts with its task."""
    from fedswe.deploy.deployment import FILE, Deployment
    from fedswe.deploy.membership import require_joining
    from fedswe.deploy.requests import RequestFolder

    number = _require_run(run)[0].numbers + RequestFolder(run).joining()
    find_tasks(run, own)
    deployment = Deployment.load(run / FILE)
    loads = deployment.problem().loads_by_client
    require_joining(deployment.experiment.algorithm, loads, deployment.simulate_absence)
    _submit(run, "join", number, reason)
    console.print(
        f"next      set the task's number of clients to {number + 1} in the app's {FILE}, give client {number}"
    )
    console.print("          a key if there is a clients.toml, and start the server again: see docs/runbook.md")


def _submit(run: Path, action: RequestedAction, client: int, reason: str) -> None:
    from fedswe.deploy.durable_files import in_use_now
    from fedswe.deploy.requests import Request, RequestFolder

    RequestFolder(run).submit(Request(action, client, reason))
    about = f" client {client}" if client >= 0 else ""
    running = in_use_now(run)
    when = "at its next start: no server runs now" if not running else "after the open round"
    if action == "join":
        when = "at its next start"
    console.print(f"{action:<9}{about} requested: the server applies it {when}")


def _require_run(run: Path) -> tuple[Membership, frozenset[int]]:
    """The members of the run, and who is one now; an error if there is no run."""
    from fedswe.deploy import ledger
    from fedswe.deploy.membership import Membership

    contents = ledger.read(run / ledger.FILE)
    membership = Membership.of(contents)
    return membership, membership.members(len(contents.entries))


def _require_member(run: Path, client: int) -> None:
    membership, members = _require_run(run)
    left = 0 <= client < membership.numbers and client not in members
    what = "has left the run for good" if left else f"does not exist: the run has {membership.numbers}, counted from 0"
    require(client in members, f"client {client} {what}")
