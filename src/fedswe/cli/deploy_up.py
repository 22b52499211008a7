"""fedswe deploy up."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from fedswe.cli.format import told
from fedswe.cli.run import headline
from fedswe.deploy import ledger
from fedswe.deploy.deployment import FILE, Deployment
from fedswe.deploy.durable_files import claim
from fedswe.deploy.flower.app_template import require_app
from fedswe.deploy.flower.processes import ProcessSupervisor
from fedswe.deploy.flower.trial import Federation, Trial
from fedswe.deploy.ledger import Entry
from fedswe.deploy.rounds import HISTORY, LOG
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import Evaluate
from fedswe.results.history import History, Row

_console = Console(highlight=False, soft_wrap=True)

_FAILURES = 8  # starts in a row that a program may fail; a killed node's key is refused for a minute
_ATTEMPTS = 3  # submissions without a committed round between them


def up_command(folder: Path, overrides: list[str], clients: int | None, run: Path | None, simulation: bool) -> None:
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
    with _alone(trial), ProcessSupervisor(str(directory)) as supervisor:
        federation = Federation(trial, supervisor)
        federation.start()
        scheme = "https" if trial.keys else "http"
        _console.print(f"listening {scheme}://127.0.0.1:{federation.port}, {clients} clients")
        _watch(federation, supervisor, progress, overrides)
    _console.print(f"results   {directory}")


@contextmanager
def _alone(trial: Trial) -> Iterator[None]:
    """A second `up` would take the programs of the first for those that a dead one has left running."""
    handle = claim(trial.home)
    try:
        yield
    finally:
        os.close(handle)


def _watch(federation: Federation, supervisor: ProcessSupervisor, progress: Progress, overrides: list[str]) -> None:
    """Submit the app and follow its run; a server that died is submitted again and continues."""
    attempts, number = 0, ""
    while not progress.finished:
        for program, code in supervisor.check():
            require(program.failures < _FAILURES, f"{program.name} ends as soon as it is started: see {program.log}")
            _console.print(f"ended     {program.name} (exit code {code}): starting it again")
        if progress.look():
            attempts = 0
        if number:
            if federation.server_ended() and not progress.look() and not progress.finished:
                if reason := federation.refusal(number):
                    raise FedsweError(reason)
                _console.print("ended     the server: starting it again")
                number = ""
        elif federation.listening():  # otherwise the SuperLink was killed as well, and is on its way
            require(attempts < _ATTEMPTS, f"the server does not get on: see {federation.trial.home / 'logs'}")
            number, attempts = federation.submit(overrides), attempts + 1
        time.sleep(0.2)
    federation.wait_until_ended()


class Progress:
    """What the ledger and the history in a run directory say, told round by round."""

    def __init__(self, directory: Path, rounds: int, evaluate: Evaluate) -> None:
        self._directory, self._rounds, self._evaluate = directory, rounds, evaluate
        self._told, self._began = len(self._entries()), time.monotonic()
        log = directory / LOG
        self._read = log.stat().st_size if log.is_file() else 0
        if self._told and not self.finished:
            _console.print(f"resuming  at round {self._told} of {rounds}")

    @property
    def finished(self) -> bool:
        return self._told >= self._rounds

    def look(self) -> bool:
        """Tell the rounds committed since the last look; whether there were any."""
        for complaint in self._complaints():
            _console.print(f"warning   {complaint}")
        entries, scores = self._entries(), self._scores()
        before = self._told
        for entry in entries[before:]:
            row = scores.get(entry.t + 1)
            if row is None and self._due(entry) and entry is entries[-1]:
                break  # its evaluation follows in a moment
            took, self._began = time.monotonic() - self._began, time.monotonic()
            words = f"  {headline(row)}" if row else ""
            _console.print(f"{told(entry, self._rounds)}  {took:.1f} s{words}")
            self._told += 1
        return self._told > before

    def _due(self, entry: Entry) -> bool:
        return self._evaluate.due(entry.t + 1, self._rounds)

    def _complaints(self) -> list[str]:
        """What the server has written to its log since the last look."""
        path = self._directory / LOG
        if not path.is_file():
            return []
        with open(path, "rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace").splitlines()

    def _entries(self) -> list[Entry]:
        path = self._directory / ledger.FILE
        return ledger.read(path)[1] if path.is_file() else []

    def _scores(self) -> dict[int, Row]:
        path = self._directory / HISTORY
        rows = History.from_csv(path.read_text()).rows if path.is_file() else []
        return {int(row["round"]): row for row in rows}
