"""Supervised programs: each has its own session and log, is restarted when it ends, and is stopped at the end.

A process that is suspended for long (SIGSTOP) counts as ended: it is killed.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

MARK = "FEDSWE_TRIAL"  # environment variable that marks all processes of a trial
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STARTED = 20.0  # seconds a program must run for its start to count as a success
_LONGEST_PAUSE = 60.0  # seconds before a program is started again
_SUSPENDED = 30.0  # seconds that a process may be suspended
_CHECK_SUSPENDED = 5.0  # seconds between two looks for suspended processes
_GRACE = 8.0  # seconds between SIGTERM and SIGKILL
_FAILURES = 8  # starts in a row that a program may fail
_LOG_END = 20_000  # bytes at the end of a log in which an error is looked for
_ERROR_LINE = re.compile(r"^(?:error: .*|[\w.]*(?:Error|Exception)\b.*)$", re.MULTILINE)


@dataclass
class Program:
    """One program; `restart` is the pause in seconds before it is started again after it has ended.

    The pause doubles while the program ends within seconds of its start.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    restart: float = 1.0
    essential: bool = True  # nothing works without it
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0  # consecutive starts after which it ended within seconds
    _changed: float = 0.0  # when it was started or found to have ended
    _group: int | None = None  # of the process that has ended

    @property
    def pause(self) -> float:
        """Seconds until it is started again after it has ended."""
        return min(self.restart * 2.0 ** max(self.failures - 1, 0), _LONGEST_PAUSE)

    @property
    def failing(self) -> bool:
        """Whether it ends after each start; the key of a killed node is refused for a minute, which is less."""
        return self.failures >= _FAILURES

    def start(self) -> None:
        self._signal_group(signal.SIGKILL)
        self._group = None
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
            waited = time.monotonic() - self._changed
            if waited >= self.pause and (waited >= _GRACE or not self._signal_group(0)):
                self.start()
            return None
        code = self.process.poll()
        if code is not None:
            self._group = self.process.pid
            # Child processes it has left running. They have some seconds to end: a node must deregister.
            self._signal_group(signal.SIGTERM)
            soon = time.monotonic() - self._changed < _STARTED
            self.process, self._changed = None, time.monotonic()
            self.failures = self.failures + 1 if soon else 0
        return code

    def failure(self) -> str:
        """The last error in its log, in one line; empty if there is none."""
        try:
            with open(self.log, "rb") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - _LOG_END, 0))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        found = _ERROR_LINE.findall(text)
        return str(found[-1]).strip() if found else ""

    def _signal_group(self, number: int) -> bool:
        """Whether the program that has ended has left processes running, which get the signal."""
        if self._group is None:
            return False
        try:
            os.killpg(self._group, number)
        except ProcessLookupError:
            return False
        return True


class ProcessSupervisor:
    """The programs of one trial. On exit all of them and their child processes are stopped."""

    def __init__(self, mark: str, report: Callable[[Program, int], None] = lambda program, code: None) -> None:
        """`report` is called with every program that has ended and its exit code."""
        self.programs: list[Program] = []
        self._mark, self._report, self._signals = mark, report, ExitStack()
        self._suspended: dict[psutil.Process, float] = {}  # since when
        self._looked = 0.0

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
            stop_marked(self._mark, self._own())
            for program in self.programs:
                if program.process is not None:
                    program.process.wait()
        finally:
            self._signals.close()

    def _own(self) -> list[psutil.Process]:
        """The programs themselves: Flower's SuperExec hides its environment from everybody but root."""
        own = []
        for program in self.programs:
            with suppress(psutil.Error):
                if program.process is not None:
                    own.append(psutil.Process(program.process.pid))
        return own

    def start(self, program: Program) -> Program:
        self.programs.append(program)
        program.start()
        return program

    def check(self) -> list[tuple[Program, int]]:
        """Restart programs that have ended; returns those that have ended since the last check, with exit codes."""
        self._kill_suspended()
        ended = [(p, code) for p in self.programs if (code := p.check()) is not None]
        for program, code in ended:
            self._report(program, code)
        return ended

    def _kill_suspended(self) -> None:
        now = time.monotonic()
        if now - self._looked < _CHECK_SUSPENDED:
            return
        self._looked, before = now, self._suspended
        processes = {*marked(self._mark), *self._own()}
        self._suspended = {p: before.get(p, now) for p in processes if _status(p) == psutil.STATUS_STOPPED}
        for process, since in self._suspended.items():
            if now - since >= _SUSPENDED:
                with suppress(psutil.Error):
                    process.kill()


def marked(mark: str) -> list[psutil.Process]:
    """The running processes of a trial, also detached ones: Flower detaches some of its child processes."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def stop_marked(mark: str, also: Sequence[psutil.Process] = ()) -> None:
    """Send SIGTERM to all processes of a trial and to `also`, then SIGKILL to those that are still running.

    SuperLink and proxy are stopped last: a node that could not deregister counts as online for another minute.
    """
    for last in (False, True):
        stopping = [process for process in {*marked(mark), *also} if last or not _is_reached_by_nodes(process)]
        for process in stopping:
            with suppress(psutil.Error):
                process.terminate()
        psutil.wait_procs(stopping, timeout=_GRACE)
    while stopping := [*marked(mark), *filter(_running, also)]:  # also processes that were started meanwhile
        for process in stopping:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stopping, timeout=1.0)


def _running(process: psutil.Process) -> bool:
    return _status(process) not in ("", psutil.STATUS_ZOMBIE)


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return ""


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
