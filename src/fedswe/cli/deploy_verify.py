"""fedswe deploy verify, ledger: check a run, and give the clients what they need to check their part of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json
from fedswe.cli.deploy_arguments import RunFolder, find_tasks
from fedswe.errors import FedsweError, require
from fedswe.foreign_code import only_code_of
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    from fedswe.deploy.audit.findings import Verification


def verify_command(
    run: RunFolder,
    client: Annotated[
        str | None, typer.Option(metavar="I|all", help="Check the part of client I, from its own data and state")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The client's state-dir; default: RUN_DIR/clients")
    ] = None,
    own: Annotated[
        Path | None,
        typer.Option(
            "--app",
            metavar="DIR",
            help="Where your own task is; default: the folder of RUN_DIR. For a run of another machine, and with "
            "--client I: none, because others have written RUN_DIR",
        ),
    ] = None,
    other_machine: Annotated[
        bool, typer.Option("--other-machine", help="The run is of another machine: do not check the seals")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check ledger, files, models and evaluations of a run, without the data of its clients; or a client's part."""
    import torch

    from fedswe.deploy.audit.verify import Scope, verify, verify_client
    from fedswe.deploy.ledger_key import LedgerKey

    torch.set_num_threads(1)  # as in the processes of a trial: sums depend on the number of threads
    if client is None or client == "all":
        scope = Scope(not other_machine, state, True if client == "all" else None)
        # What an operator has put beside a run of another machine is not run here. Without a key it is such a run; with
        # one, the seals say so, and nothing is imported.
        if other_machine or not LedgerKey.find().secret:
            with only_code_of(own):
                found = verify(run, scope=scope)
        else:
            find_tasks(run, own)
            found = verify(run, scope=scope)
    else:
        require(client.isdecimal(), f"--client must be a number or all, not {client}")
        found = verify_client(run, int(client), state or run / "clients", own)
    if as_json:
        parts = [asdict(part) for part in found.parts]
        summary = {"passed": found.passed, "complete": found.complete, "exact": found.exact}
        print_json({**asdict(found), **summary, "parts": parts, "failures": found.failures})
    else:
        _print(found)
    if not found.passed:
        raise typer.Exit(1)


def _print(found: Verification) -> None:
    for part in found.parts:
        if part.checked:
            console.print(f"{part.name:<14}{part.checked}")
        for failure in part.failures:
            console.print(f"{part.name:<14}FAILED: {failure}")
        for note in part.notes:
            console.print(f"{part.name:<14}note: {note}")
        for what in part.skipped:
            console.print(f"{part.name:<14}not checked: {what}")
    if not found.passed:
        result = f"FAILED: {len(found.failures)} findings"
    elif found.complete:
        result = "passed: every model follows from the reports, and every report from the data of its client"
    else:
        result = "passed, as far as it was checked"
    console.print(f"{'verify':<14}{result}")


def ledger_command(
    run: RunFolder,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write")] = Path("ledger"),
) -> None:
    """Copy what clients need to check their part of a run: the ledger and deployment.toml."""
    from fedswe.deploy import ledger
    from fedswe.deploy.deployment import FILE

    contents = ledger.read(run / ledger.FILE)
    require(not out.exists() or not any(out.iterdir()), f"{out} is not empty: choose another folder")
    try:
        content, deployment = (run / ledger.FILE).read_bytes()[: contents.size], (run / FILE).read_bytes()
        require(
            ledger.file_digest(deployment) in contents.may_be(FILE),
            f"{run / FILE} is not the file that the ledger names: if a server has just started, try again",
        )
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FedsweError(f"cannot copy {run} to {out}: {error.strerror}") from None
    write_whole(out / FILE, deployment)
    write_whole(out / ledger.FILE, content)
    console.print(
        f"ledger    {out}: {len(contents.entries)} rounds; clients run `fedswe deploy verify {out} --client I`"
    )
