"""Take committed rounds back: the run continues after an earlier round. What was taken back stays in the ledger."""

from __future__ import annotations

from pathlib import Path

from fedswe.deploy import durable_files, ledger
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.evaluation import HISTORY, history
from fedswe.deploy.ledger import Contents, Ledger, require_own_seals
from fedswe.deploy.ledger_lines import Change
from fedswe.deploy.membership import Membership
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.recomputation import kept_everything, rebuilt
from fedswe.deploy.server_files import ServerFiles, restorable
from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole


def rollback(directory: Path | str, to: int, reason: str = "") -> int:
    """Keep the first `to` rounds of a run that no server runs; returns how many were taken back."""
    folder = Path(directory)
    require((folder / ledger.FILE).is_file(), f"{folder} holds no deployment (no {ledger.FILE})")
    lock = durable_files.claim(folder)
    try:
        path = folder / ledger.FILE
        contents = ledger.read(path)
        require_own_seals(folder, contents)
        rounds = len(contents.entries)
        require(0 <= to < rounds, f"--to must be from 0 to {rounds - 1}: {rounds} rounds are committed")
        _provide_files(folder, contents, to)
        book = Ledger(path, contents)
        try:
            book.append(Change("rollback", to, reason=reason))
        finally:
            book.close()
        _remove_what_follows(folder, contents, to)
        contents = ledger.read(path)
        if contents.rows:
            write_whole(folder / HISTORY, history(contents.rows).to_csv())
        else:
            (folder / HISTORY).unlink(missing_ok=True)
        return rounds - to
    finally:
        lock.release()


def _provide_files(folder: Path, contents: Contents, to: int) -> None:
    """Check the files that the next round needs; where they were removed, compute them again from kept reports."""
    entries, membership = contents.entries, Membership.of(contents)
    files = ServerFiles(folder, entries[:to])
    try:
        files.check(to, membership.last_merges(entries[:to]))
    except FedsweError:
        there = {name for name, _ in files.stored()}
        possible = ", ".join(str(t) for t in restorable(entries, membership, there) if t < len(entries))
        require(
            kept_everything(entries[:to]),
            f"{folder}: the files of round {to} are no longer there or damaged; "
            f"the run can be taken back to {possible} (deploy.keep_rounds says how many are kept)",
        )
        deployment = Deployment.load(folder / DEPLOYMENT_FILE)
        problem = deployment.problem()
        protocol = RunProtocol(deployment, problem, files.start(problem.start), membership)
        require(
            protocol.start_digest == ledger.read(folder / ledger.FILE).title.start,
            f"{folder}: start.safetensors is not of this run",
        )
        known = {name: value for entry in entries[:to] for name, value in entry.files.items()}
        made = {n: content for n, content in rebuilt(folder, protocol, entries[:to]) if n in known}
        wrong = [name for name, content in made.items() if ledger.file_digest(content) != known[name]]
        require(
            all(files.sound(name) for name in wrong),
            f"{folder}: {', '.join(wrong)} cannot be computed again with this evaluate.model: start once with the "
            f"evaluate.model of round {to}, or take the run back to another round",
        )
        for name in made.keys() - set(wrong):
            write_whole(folder / f"{name}.safetensors", made[name])
        files.check(to, membership.last_merges(entries[:to]))


def _remove_what_follows(folder: Path, contents: Contents, to: int) -> None:
    entries, membership = contents.entries[:to], Membership.of(contents)
    files = ServerFiles(folder, entries)
    there = {name for name, _ in files.stored()}
    files.sweep({t: membership.last_merges(entries[:t]) for t in restorable(entries, membership, there)})
    files.remove_models()
    for name, t in files.stored():
        if t > to:
            (folder / f"{name}.safetensors").unlink()
