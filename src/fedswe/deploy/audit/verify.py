"""Check that a deployment computed its algorithm. Two halves, neither of which needs the data of the other side:

* the server's: the chain of the ledger, the digests of all files, and every merge computed again from the reports,
  which deploy.trail = true keeps;
* a client's: its records agree with the ledger, and its reports follow from its own data.

Where the data of all clients are on one machine, the whole run is also computed again in the simulator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedswe.deploy import ledger
from fedswe.deploy.audit import chain
from fedswe.deploy.audit.clients import check_client
from fedswe.deploy.audit.files import check_derived, check_earlier_rounds, check_files, check_start_file
from fedswe.deploy.audit.findings import Part, Verification
from fedswe.deploy.audit.models import ModelChecks
from fedswe.deploy.audit.simulation import replay
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.durable_files import in_use_now
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_key import LedgerKey
from fedswe.deploy.membership import Membership
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.deploy.stored_run import StoredRun, stored_deployment
from fedswe.errors import FedsweError, require
from fedswe.experiment import configuration
from fedswe.foreign_code import ForeignCode, only_code_of

_ATTEMPTS = 5  # while a server runs: it may remove files between two checks
_PAUSE = 0.5  # seconds between two attempts


@dataclass(frozen=True)
class Scope:
    """What `verify` is to check."""

    own_seals: bool = True  # the run is of this machine, so its lines have this machine's seals
    clients: Path | None = None  # the folder with the states of all clients; by default RUN/clients, if it is there
    replay: bool | None = None  # the whole run in the simulator; by default if the data of all clients are here


def verify(
    directory: Path | str, watch: Callable[[int], None] | None = None, scope: Scope | None = None
) -> Verification:
    """Check the run in `directory`; `watch` is called with the number of rounds replayed in the simulator."""
    folder, scope = Path(directory), scope or Scope()
    LedgerKey.find()  # a damaged key is an error of this machine, not a finding about the run
    for _ in range(_ATTEMPTS):
        try:
            ordered = chain.read(folder / ledger.FILE)
        except FedsweError as error:
            require((folder / ledger.FILE).is_file(), str(error))
            rest = ["all files, models and evaluations: they are compared with the ledger"]
            return Verification(0, 0, [Part("ledger", failures=[str(error)], skipped=rest)])
        require(ordered.contents.entries, f"{folder}: no round was committed yet, there is nothing to verify")
        found = _verify(folder, ordered, scope, watch)
        if found.passed or not (in_use_now(folder) or ledger.read(folder / ledger.FILE).size > ordered.contents.size):
            break
        time.sleep(_PAUSE)
    return found


def _verify(
    folder: Path, ordered: chain.LedgerInOrder, scope: Scope, watch: Callable[[int], None] | None
) -> Verification:
    contents = ordered.contents
    whole = Part("ledger", f"{len(ordered.lines)} lines, each with the digest of the line before", ordered.misplaced)
    files, sound = check_files(folder, contents)
    files.attempt(check_earlier_rounds, files, folder, ordered)
    seals = chain.check_seals(contents, folder, scope.own_seals)
    parts = [whole, seals, files, check_derived(folder, ordered)]
    rounds, reports = len(contents.entries), sum(len(entry.merged) for entry in contents.entries)
    try:
        # The task that deployment.toml names is imported: not before it is known to be the server's.
        require(not seals.failures, "the seals have failed, so the models are not computed again")
        deployment = stored_deployment(folder, contents)
        problem = deployment.problem()
        start, membership = ServerFiles(folder).start(problem.start), Membership.of(contents)
        protocol = RunProtocol(deployment, problem, start, membership)
        _require_same_run(folder, contents, protocol, parts[-1])
    except ForeignCode:
        raise  # no finding about the run
    except FedsweError as error:
        part = Part("models", failures=[str(error)], skipped=["rounds, models and evaluations, which need these files"])
        return Verification(rounds, reports, [*parts, part])
    checks = ModelChecks(folder, ordered, sound, protocol, problem)
    parts += [chain.check_rounds(contents, protocol), *checks.run()]
    replayed, result = 0, None
    states = scope.clients or folder / "clients"
    if states.is_dir() and deployment.trail:
        for client in range(protocol.membership.numbers):
            part, count = check_client(ordered, deployment, problem, client, state_of(states, client))
            replayed += count
            parts.append(part)
    if _data_are_here(folder, deployment, scope) and not any(part.failures for part in parts):
        run = StoredRun(folder, protocol, contents.entries)
        final = {"server": run.server_model(), "client_mean": run.client_mean()}
        part, result = replay(folder, contents, protocol, problem, final, watch)
        parts.append(part)
    found = Verification(rounds, reports, parts, result, checks.recomputed, replayed)
    if not found.complete and found.passed:
        parts.append(
            Part("proof", skipped=["that the reports follow from the data: `fedswe deploy verify --client I`"])
        )
    return found


def verify_client(directory: Path | str, client: int, state: Path | str, app: Path | str | None = None) -> Verification:
    """A client's half: `directory` needs only the ledger and deployment.toml, `state` is the client's own folder.

    `app`: the client's own folder with the code that the deployment names. The operator has sent `directory`, so
    nothing in it is run, and no code but that in `app` and in installed packages. If `app` has a deployment.toml, its
    task is taken: the paths of the data may differ from the server's. Code that this file names is the client's too.
    """
    own = None if app is None else Path(app)
    file = {} if own is None or not (own / DEPLOYMENT_FILE).is_file() else configuration.read(own / DEPLOYMENT_FILE)
    with only_code_of(own, _texts(file)):
        return _verify_client(Path(directory), client, Path(state), file)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _verify_client(folder: Path, client: int, state: Path, own: configuration.Table) -> Verification:
    """`own`: the client's deployment.toml, if it has one."""
    try:
        ordered = chain.read(folder / ledger.FILE)
    except FedsweError as error:
        require((folder / ledger.FILE).is_file(), str(error))
        return Verification(0, 0, [Part("ledger", failures=[str(error)])])
    contents = ordered.contents
    whole = Part("ledger", f"{len(ordered.lines)} lines, each with the digest of the line before", ordered.misplaced)
    derived = Part("deployment", f"{DEPLOYMENT_FILE} is the file that the last start in the ledger names")
    if contents.starts and not check_start_file(derived, folder, DEPLOYMENT_FILE, contents):
        derived.checked = ""
        return Verification(len(contents.entries), 0, [whole, derived])
    deployment = stored_deployment(folder, contents, {"task": own["task"]} if "task" in own else {})
    problem = deployment.problem()
    require(0 <= client < problem.m, f"there is no client {client}: the task has {problem.m}, counted from 0")
    try:
        protocol = RunProtocol(deployment, problem, membership=Membership.of(contents))
        _require_same_run(folder, contents, protocol, derived)
    except FedsweError as error:
        derived.failures.append(str(error))
        return Verification(len(contents.entries), 0, [whole, derived])
    part, replayed = check_client(ordered, deployment, problem, client, state_of(state, client))
    merged = sum(client in entry.merged for entry in contents.entries)
    other = Part("proof", skipped=["the sums of the reports: `fedswe deploy verify` at the server"])
    parts = [whole, derived, chain.check_seals(contents, folder, False), chain.check_rounds(contents, protocol)]
    parts += [part, other]
    return Verification(len(contents.entries), merged, parts, replayed=replayed)


def state_of(states: Path, client: int) -> Path:
    """The folder of a client's state: in a trial each client has its own, in one process all share one."""
    own = states / f"client-{client}"
    return own if own.is_dir() else states


def _require_same_run(folder: Path, contents: Contents, protocol: RunProtocol, derived: Part) -> None:
    """A later version may know more keys, which changes the digest: then the file that the ledger names decides."""
    named = bool(contents.starts) and not any(DEPLOYMENT_FILE in failure for failure in derived.failures)
    require(
        protocol.m >= protocol.membership.numbers and (named or protocol.config_digest == contents.title.plan),
        f"{folder}: {DEPLOYMENT_FILE} is not of this run: restore the file it began with",
    )


def _data_are_here(folder: Path, deployment: Deployment, scope: Scope) -> bool:
    """In a trial, and with tasks that come with their data."""
    if scope.replay is not None:
        return scope.replay
    own = type(deployment.experiment.task).__module__.split(".")[0] == "fedswe"
    return own or (folder / "clients").is_dir()
