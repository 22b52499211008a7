"""Supervised programs: each has its own session and log, is restarted when it ends, and is stopped at the end."""

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

MARK = "FEDSWE_TRIAL"  # environment variable that marks all processes of a trial
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STARTED = 10.0  # seconds a program must run for its start to count as a success
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
    failures: int = 0  # consecutive starts after which it ended within seconds
    _changed: float = 0.0  # when it was started or found to have ended

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.environment),
                start_new_session=True,  # Ctrl-C must reach the supervisor only
            )
        self._changed = time.monotonic()

    def check(self) -> int | None:
        """Restart the program if it is time; returns its exit code if it has ended since the last check."""
        if self.process is None:
            if time.monotonic() - self._changed >= self.restart:
                self.start()
            return None
        code = self.process.poll()
        if code is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # child processes it has left running
            soon = time.monotonic() - self._changed < _STARTED
            self.process, self._changed = None, time.monotonic()
            self.failures = self.failures + 1 if soon else 0
        return code


class ProcessSupervisor:
    """The programs of one trial. On exit all of them and their child processes are stopped."""

    def __init__(self, mark: str) -> None:
        self.programs: list[Program] = []
        self._mark, self._signals = mark, ExitStack()

    def __enter__(self) -> ProcessSupervisor:
        for number in _SIGNALS:
            before = signal.signal(number, _interrupt)
            self._signals.callback(signal.signal, number, before)
        stop_marked(self._mark)  # left running by a supervisor that was killed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the stopping
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

    def check(self) -> list[tuple[Program, int]]:
        """Restart programs that have ended; returns those that have ended since the last check, with exit codes."""
        return [(p, code) for p in self.programs if (code := p.check()) is not None]


def marked(mark: str) -> list[psutil.Process]:
    """The running processes of a trial, also detached ones: Flower detaches some of its child processes."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def stop_marked(mark: str) -> None:
    """Send SIGTERM to all processes of a trial, then SIGKILL to those that are still running.

    SuperLink and proxy are stopped last: a node that could not deregister counts as online for another minute.
    """
    for last in (False, True):
        stopping = [process for process in marked(mark) if last or not _is_reached_by_nodes(process)]
        for process in stopping:
            with suppress(psutil.Error):
                process.terminate()
        psutil.wait_procs(stopping, timeout=_GRACE)
    while stopping := marked(mark):  # also processes that were started meanwhile
        for process in stopping:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stopping, timeout=1.0)


def _is_reached_by_nodes(process: psutil.Process) -> bool:
    try:
        return any("flower-superlink" in word or word.endswith("nginx") for word in process.cmdline())
    except psutil.Error:
        return False


def free_ports(count: int) -> list[int]:
    """Unused ports of the loopback interface."""
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
