"""The command `fedswe deploy up`: run a deployment with all its processes on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.console import console
from fedswe.cli.deploy import AppFolder, need_flower, round_line
from fedswe.cli.run import headline
from fedswe.errors import FedsweError, require

if TYPE_CHECKING:
    from fedswe.deploy.flower.processes import ProcessSupervisor
    from fedswe.deploy.flower.trial import Federation, Trial
    from fedswe.deploy.ledger import Entry
    from fedswe.experiment.experiment import Evaluate
    from fedswe.results.history import Row

_FAILURES = 8  # starts in a row that a program may fail; the key of a killed node is refused for a minute
_ATTEMPTS = 3  # submissions without a committed round between them


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

    overrides = overrides or []
    if "=" in str(folder):
        folder, overrides = Path(), [str(folder), *overrides]
    folder = folder.resolve()
    require_app(folder)
    directory = (run or folder / "run").resolve()
    sys.path.insert(0, str(folder))  # the user's own task is in the app
    deployment = Deployment.load(folder / FILE, overrides)
    m = deployment.problem().m
    clients = m if clients is None else clients
    require(1 <= clients <= m, f"--clients must be from 1 to {m}, the clients of the task, not {clients}")
    require(
        clients >= deployment.min_clients,
        f"a round needs {deployment.min_clients} clients: raise --clients, or lower deploy.min_clients",
    )
    if (directory / ledger.FILE).is_file():
        require(
            deployment.continues(directory, ledger.read(directory / ledger.FILE)[0].plan),
            f"{directory} holds a run of another algorithm, local training, seed or dtype: choose another with --run",
        )
    trial = Trial(folder, directory, clients, simulation)
    progress = Progress(directory, deployment.experiment.rounds, deployment.experiment.evaluate)
    if progress.finished:
        raise FedsweError(f"the run in {directory} is finished: choose another with --run, or raise rounds")
    trial.prepare()
    with _locked(trial), ProcessSupervisor(str(directory)) as supervisor:
        federation = Federation(trial, supervisor)
        federation.start()
        scheme = "https" if trial.keys else "http"
        console.print(f"listening {scheme}://{federation.fleet}, {clients} clients")
        if trial.keys and not federation.nginx:
            console.print("proxy     left out, nginx is not installed: SuperNodes connect to the SuperLink on loopback")
        _watch(federation, supervisor, progress, overrides)
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


def _watch(federation: Federation, supervisor: ProcessSupervisor, progress: Progress, overrides: list[str]) -> None:
    """Submit the app and follow its run; a server that ended early is submitted again and continues."""
    attempts, number = 0, ""
    while not progress.finished:
        for program, code in supervisor.check():
            require(program.failures < _FAILURES, f"{program.name} stops right after its start: see {program.log}")
            console.print(f"ended     {program.name} (exit code {code}): starting it again")
        if progress.look():
            attempts = 0
        if number:
            if federation.server_ended() and not progress.look() and not progress.finished:
                if reason := federation.refusal(number):
                    raise FedsweError(reason)
                console.print("ended     the server: starting it again")
                number = ""
        elif federation.listening():  # otherwise the SuperLink was killed as well and is being restarted
            require(attempts < _ATTEMPTS, f"the server makes no progress: see {federation.trial.home / 'logs'}")
            number, attempts = federation.submit(overrides), attempts + 1
        time.sleep(0.2)
    federation.wait_until_ended()


class Progress:
    """Prints the rounds of a run as they appear in the ledger and the history of its directory."""

    def __init__(self, directory: Path, rounds: int, evaluate: Evaluate) -> None:
        from fedswe.deploy.rounds import HISTORY, LOG

        self._directory, self._rounds, self._evaluate = directory, rounds, evaluate
        self._log, self._history = directory / LOG, directory / HISTORY
        self._printed, self._began = len(self._entries()), time.monotonic()
        self._read = self._log.stat().st_size if self._log.is_file() else 0
        if self._printed and not self.finished:
            console.print(f"resuming  at round {self._printed} of {rounds}")

    @property
    def finished(self) -> bool:
        return self._printed >= self._rounds

    def look(self) -> bool:
        """Print the rounds committed since the last look; whether there were any."""
        for line in self._new_log_lines():
            console.print(f"warning   {line}")
        entries, scores = self._entries(), self._scores()
        before = self._printed
        for entry in entries[before:]:
            row = scores.get(entry.t + 1)
            if row is None and self._due(entry) and entry is entries[-1]:
                break  # its evaluation is not written yet
            took, self._began = time.monotonic() - self._began, time.monotonic()
            shown = f"  {headline(row)}" if row else ""
            console.print(f"{round_line(entry, self._rounds)}  {took:.1f} s{shown}")
            self._printed += 1
        return self._printed > before

    def _due(self, entry: Entry) -> bool:
        return self._evaluate.due(entry.t + 1, self._rounds)

    def _new_log_lines(self) -> list[str]:
        """The lines that the server has written to its log since the last look."""
        if not self._log.is_file():
            return []
        with open(self._log, "rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace").splitlines()

    def _entries(self) -> list[Entry]:
        from fedswe.deploy import ledger

        path = self._directory / ledger.FILE
        return ledger.read(path)[1] if path.is_file() else []

    def _scores(self) -> dict[int, Row]:
        from fedswe.results.history import History

        rows = History.from_csv(self._history.read_text()).rows if self._history.is_file() else []
        return {int(row["round"]): row for row in rows}
