"""The directory of a run when a server starts: a new run is begun, and an old one must be of this deployment."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from fedswe.deploy import ledger
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.durable_files import claim, read_whole
from fedswe.deploy.ledger_lines import Start, Title
from fedswe.deploy.membership import Membership, require_joining
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.requests import RequestFolder
from fedswe.deploy.server_files import RESTORE, ServerFiles
from fedswe.errors import FedsweError, require
from fedswe.results.locks import Claim
from fedswe.tasks.problem import Problem


@dataclass(frozen=True)
class OpenedRun:
    folder: Path
    protocol: RunProtocol
    problem: Problem
    lock: Claim  # no other server uses the folder until it is released


def open_run(folder: Path, deployment: Deployment, problem: Problem | None) -> OpenedRun:
    """Lock the folder, and begin a run in it if there is none."""
    files = ServerFiles(folder)
    # A second server ends here, before it builds the task.
    lock = claim(folder) if os.path.exists(folder / ledger.FILE) else None
    try:
        problem = deployment.problem() if problem is None else problem
        start = files.start(problem.start) if os.path.exists(folder / ledger.FILE) else None
        protocol = RunProtocol(deployment, problem, start)  # refuses what cannot be deployed before any write
        require(
            deployment.min_clients <= protocol.m,
            f"a round needs {deployment.min_clients} clients, the task has {protocol.m}: lower deploy.min_clients",
        )
        try:
            files.create()
        except OSError as error:
            raise FedsweError(f"cannot write {folder}: {error.strerror}; choose another directory") from None
        lock = lock or claim(folder)
        if not (folder / ledger.FILE).exists():
            require(
                files.empty(),
                f"{folder} holds the state of a run but no {ledger.FILE}: restore it from a backup, "
                "or choose another directory",
            )
            files.save_start(protocol.start)
            title = Title(secrets.token_hex(8), protocol.config_digest, protocol.start_digest, protocol.m)
            ledger.begin(folder / ledger.FILE, title)
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return OpenedRun(folder, protocol, problem, lock)


def checked_ledger(run: OpenedRun) -> ledger.Contents:
    """What the ledger says; refused if it is of another deployment, or not as this machine has written it."""
    folder, protocol, deployment = run.folder, run.protocol, run.protocol.deployment
    contents = ledger.read(folder / ledger.FILE)
    numbers = Membership.of(contents).numbers
    require(
        protocol.m >= numbers and _continues(folder, deployment, contents),
        f"{folder} holds a run of another algorithm, local training, seed, dtype or number of clients: "
        f"resume it with its own {DEPLOYMENT_FILE}, or choose another directory",
    )
    require(
        protocol.m <= numbers + RequestFolder(folder).joining(),
        f"the task has {protocol.m} clients, the run in {folder} {numbers}: set the number back, or let each new "
        f"client join with `fedswe deploy join {folder}`",
    )
    if protocol.m > numbers:
        require_joining(protocol.algorithm, run.problem.loads_by_client, deployment.simulate_absence)
    require(contents.title.start == protocol.start_digest, f"{folder}: start.safetensors is not of this run: {RESTORE}")
    ledger.require_own_seals(folder, contents)
    return contents


def _continues(folder: Path, deployment: Deployment, contents: ledger.Contents) -> bool:
    """Whether the run is of this deployment, or of another version with the same deployment.toml."""
    if contents.title.plan == deployment.digest():
        return True
    path = folder / DEPLOYMENT_FILE
    try:
        own = not contents.starts or ledger.file_digest(read_whole(path)) in contents.may_be(path.name)
    except OSError:
        return False
    return own and deployment.continues(folder, contents.title.plan)


def start_files(folder: Path, deployment: Deployment, before: Start | None) -> dict[str, str]:
    """The digests of the files that belong to a start. `before`: the last start, whose run.json must be the same."""
    files = {DEPLOYMENT_FILE: ledger.file_digest(deployment.dump().encode())}
    path = folder / "run.json"
    if path.is_file():
        files[path.name] = known = ledger.file_digest(path.read_bytes())
        require(
            before is None or before.files.get(path.name, known) == known,
            f"{path} is not the file that the ledger names: restore it from a backup, "
            "or delete it to continue without its records",
        )
    return files
