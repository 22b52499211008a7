"""Programs under supervision: each in a session of its own with a log, restarted when it dies, stopped for certain."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

MARK = "FEDSWE_TRIAL"  # the environment variable by which all descendants of a trial are known
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STARTED = 10.0  # seconds after which a start counts as a success
_GRACE = 8.0  # seconds between SIGTERM and SIGKILL


@dataclass
class Program:
    """One program; `restart` is the pause in seconds before it is started again after it has ended."""

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    restart: float
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0  # starts in a row after which it ended within seconds
    _changed: float = 0.0  # when it was started or found dead

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.environment),
                start_new_session=True,  # Ctrl-C is the supervisor's to handle
            )
        self._changed = time.monotonic()

    def tend(self) -> int | None:
        """Start the program again if it is time; its exit code if it was found dead just now."""
        if self.process is None:
            if time.monotonic() - self._changed >= self.restart:
                self.start()
            return None
        code = self.process.poll()
        if code is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # what the dead one has left behind
            soon = time.monotonic() - self._changed < _STARTED
            self.process, self._changed = None, time.monotonic()
            self.failures = self.failures + 1 if soon else 0
        return code


class ProcessSupervisor:
    """The programs of one trial: started one by one, tended, and at the end all stopped with all they have started."""

    def __init__(self, mark: str) -> None:
        self.programs: list[Program] = []
        self._mark, self._signals = mark, ExitStack()

    def __enter__(self) -> ProcessSupervisor:
        for number in _SIGNALS:
            before = signal.signal(number, _interrupt)
            self._signals.callback(signal.signal, number, before)
        stop_marked(self._mark)  # a supervisor that was killed could not do it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # a second one must not leave half of them running
        try:
            stop_marked(self._mark)
            for program in self.programs:
                if program.process is not None:
                    program.process.wait()
        finally:
            self._signals.close()

    def start(self, program: Program) -> Program:
        self.programs.append(program)
        program.start()
        return program

    def tend(self) -> list[tuple[Program, int]]:
        """Restart what has died; the programs found dead just now with their exit codes."""
        return [(p, code) for p in self.programs if (code := p.tend()) is not None]


def marked(mark: str) -> list[psutil.Process]:
    """The living processes of a trial, whoever started them: Flower detaches some of its children."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def stop_marked(mark: str) -> None:
    """SIGTERM to all processes of a trial, SIGKILL to those that stay.

    The SuperLink goes last: a node that cannot take its leave is held to be online for another minute.
    """
    for last in (False, True):
        leaving = [process for process in marked(mark) if last or not _is_superlink(process)]
        for process in leaving:
            with suppress(psutil.Error):
                process.terminate()
        psutil.wait_procs(leaving, timeout=_GRACE)
    while leaving := marked(mark):  # also what was born meanwhile
        for process in leaving:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(leaving, timeout=1.0)


def _is_superlink(process: psutil.Process) -> bool:
    try:
        return any("flower-superlink" in word for word in process.cmdline())
    except psutil.Error:
        return False


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface nobody listens on."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
