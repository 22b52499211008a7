"""The command `fedswe deploy up`: run a deployment with all its processes on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.console import console
from fedswe.cli.deploy_arguments import AppFolder, need_flower
from fedswe.cli.deploy_printing import round_line
from fedswe.cli.followed_file import FollowedFile
from fedswe.cli.run import headline
from fedswe.errors import FedsweError, printable, require

if TYPE_CHECKING:
    from fedswe.deploy.flower.processes import ProcessSupervisor, Program
    from fedswe.deploy.flower.trial import Federation, Trial
    from fedswe.deploy.ledger import Contents
    from fedswe.deploy.ledger_lines import Entry
    from fedswe.experiment.experiment import Evaluate

_ATTEMPTS = 5  # submissions without a committed round between them
_STALLED = 120.0  # seconds without a committed round, besides the deadline, after which the reasons are printed


def up_command(
    folder: AppFolder = Path(),
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to deployment.toml, e.g. rounds=5")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="SuperNodes to start; default: one per client")] = None,
    run: Annotated[Path | None, typer.Option(metavar="RUN_DIR", help="Run directory; default DIR/run")] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="On Flower's simulation engine (Ray)")] = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, run or continue the app, and stop everything."""
    need_flower()
    from fedswe.deploy import ledger
    from fedswe.deploy.deployment import FILE, Deployment
    from fedswe.deploy.flower.app_template import require_app
    from fedswe.deploy.flower.processes import ProcessSupervisor
    from fedswe.deploy.flower.trial import Federation, Trial
    from fedswe.tracking.tracker import check_trackers

    overrides = overrides or []
    if "=" in str(folder):
        folder, overrides = Path(), [str(folder), *overrides]
    folder = folder.resolve()
    require_app(folder)
    directory = (run or folder / "run").resolve()
    sys.path.insert(0, str(folder))  # the user's own task is in the app
    deployment = Deployment.load(folder / FILE, overrides)
    check_trackers(deployment.experiment.track)
    m = deployment.problem().m
    clients = m if clients is None else clients
    require(1 <= clients <= m, f"--clients must be from 1 to {m}, the clients of the task, not {clients}")
    require(
        clients >= deployment.min_clients,
        f"a round needs {deployment.min_clients} clients: raise --clients, or lower deploy.min_clients",
    )
    if (directory / ledger.FILE).is_file():
        require(
            deployment.continues(directory, ledger.read(directory / ledger.FILE).title.plan),
            f"{directory} holds a run of another algorithm, local training, seed or dtype: choose another with --run",
        )
    trial = Trial(folder, directory, clients, simulation)
    progress = Progress(directory, deployment.experiment.rounds, deployment.experiment.evaluate)
    if progress.finished:
        raise FedsweError(f"the run in {directory} is finished: choose another with --run, or raise rounds")
    trial.prepare()
    with _locked(trial), ProcessSupervisor(str(directory), _report_end) as supervisor:
        federation = Federation(trial, supervisor)
        federation.start()
        scheme = "https" if trial.keys else "http"
        console.print(f"listening {scheme}://{federation.fleet}, {clients} clients")
        if trial.keys and not federation.nginx:
            console.print("proxy     left out, nginx is not installed: SuperNodes connect to the SuperLink on loopback")
        needed = Needed(supervisor.programs, deployment.min_clients, deployment.deadline)
        _watch(federation, supervisor, progress, overrides, needed)
    console.print(f"results   {directory}")


@contextmanager
def _locked(trial: Trial) -> Iterator[None]:
    """Refuse a second `up`: it would stop the programs of the first as if they were left over from a dead one."""
    from fedswe.deploy.durable_files import claim

    claimed = claim(trial.home)
    try:
        yield
    finally:
        claimed.release()


def _report_end(program: Program, code: int) -> None:
    why = f", {printable(failure)}" if (failure := program.failure()) and code > 0 else ""
    console.print(f"ended     {program.name} (exit code {code}{why}): starting it again in {program.pause:g} s")


def _watch(
    federation: Federation, supervisor: ProcessSupervisor, progress: Progress, overrides: list[str], needed: Needed
) -> None:
    """Submit the app and follow its run; a server that ended early is submitted again and continues."""
    attempts, number = 0, ""
    while not progress.finished:
        supervisor.check()
        if progress.look():
            attempts = 0
            needed.committed()
        if progress.stopped:
            console.print("stopped   by an operator: `up` continues the run")
            break
        if progress.paused:
            needed.committed()
        needed.check()
        if number:
            if federation.server_ended() and not progress.look() and not progress.finished:
                if reason := federation.refusal(number):
                    raise FedsweError(printable(reason))
                console.print("ended     the server: starting it again")
                number = ""
        elif federation.listening():  # otherwise the SuperLink was killed as well and is being restarted
            require(attempts < _ATTEMPTS, f"the server makes no progress: see {federation.trial.home / 'logs'}")
            number, attempts = federation.submit(overrides), attempts + 1
        time.sleep(0.2)
    federation.wait_until_ended()


class Needed:
    """Whether the programs that a round needs can run: all but the nodes, and nodes of as many clients."""

    def __init__(self, programs: Sequence[Program], min_clients: int, deadline: float) -> None:
        self._programs, self._min, self._stalled = programs, min_clients, deadline + _STALLED
        self._named: set[str] = set()  # broken nodes that were reported
        self._since = time.monotonic()

    def committed(self) -> None:
        """A round was committed."""
        self._since = time.monotonic()

    def check(self) -> None:
        """An error if no further round can open; otherwise broken nodes are named once, and a long pause explained."""
        for program in self._programs:
            require(not (program.essential and program.failing), _broken(program))
        nodes = [program for program in self._programs if not program.essential]
        broken = [node for node in nodes if node.failing]
        require(
            not broken or len(nodes) - len(broken) >= self._min,
            f"a round needs {self._min} clients and only {len(nodes) - len(broken)} of {len(nodes)} can run: "
            + "; ".join(map(_broken, broken)),
        )
        for node in broken:
            if node.name not in self._named:
                console.print(f"broken    {_broken(node)}; the others go on without it")
                self._named.add(node.name)
        self._named &= {node.name for node in broken}
        if time.monotonic() - self._since > self._stalled:
            self._since = time.monotonic()
            console.print(f"waiting   no round for {self._stalled:.0f} s: each needs {self._min} connected clients")
            for node in nodes:
                if failure := node.failure():
                    console.print(f"waiting   the last error of {node.name}: {printable(failure)} (see {node.log})")


def _broken(program: Program) -> str:
    why = f" ({printable(failure)})" if (failure := program.failure()) else ""
    return f"{program.name} stops right after its start{why}: see {program.log}"


class Progress:
    """Prints the rounds of a run as they appear in the ledger and the history of its directory."""

    def __init__(self, directory: Path, rounds: int, evaluate: Evaluate) -> None:
        from fedswe.deploy import ledger
        from fedswe.deploy.log_file import LOG

        self._rounds, self._evaluate = rounds, evaluate
        self._log, self._path = FollowedFile(directory / LOG), directory / ledger.FILE
        self._ledger = ledger.Reader(self._path)
        contents = self._contents()
        self._printed, self._began = len(contents.entries) if contents else 0, time.monotonic()
        self._starts = len(contents.starts) if contents else 0  # of earlier servers
        self._log.new_lines()  # those of earlier starts
        if self._printed and not self.finished:
            console.print(f"resuming  at round {self._printed} of {rounds}")

    @property
    def finished(self) -> bool:
        return self._printed >= self._rounds

    @property
    def stopped(self) -> bool:
        """Whether an operator has ended a server that began after this."""
        contents = self._contents()
        return contents is not None and contents.stopped and len(contents.starts) > self._starts

    @property
    def paused(self) -> bool:
        contents = self._contents()
        return contents is not None and contents.paused

    def look(self) -> bool:
        """Print the rounds committed since the last look; whether there were any."""
        from fedswe.deploy.log_file import warning_text

        for line in self._log.new_lines():
            if text := warning_text(line.decode(errors="replace")):
                console.print(f"warning   {printable(text)}")
        contents = self._contents()
        if contents is None or len(contents.entries) == self._printed:
            return False
        entries, scores = contents.entries, {int(row["round"]): row for row in contents.rows}
        before = min(self._printed, len(entries))  # fewer than before if rounds were taken back
        self._printed = before
        for entry in entries[before:]:
            row = scores.get(entry.t + 1)
            if row is None and self._due(entry) and entry is entries[-1]:
                break  # its evaluation is not written yet
            took, self._began = time.monotonic() - self._began, time.monotonic()
            shown = f"  {headline(row)}" if row else ""
            console.print(printable(f"{round_line(entry, self._rounds)}  {took:.1f} s{shown}"))
            self._printed += 1
        return self._printed > before

    def _due(self, entry: Entry) -> bool:
        return self._evaluate.due(entry.t + 1, self._rounds)

    def _contents(self) -> Contents | None:
        return self._ledger.read() if self._path.is_file() else None
