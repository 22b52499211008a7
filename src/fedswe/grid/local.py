"""Workers on this machine: this process, or several processes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from fedswe.core import in_memory
from fedswe.errors import FedsweWarning, TrackerWarning, warn
from fedswe.experiment.configuration import dump, load_text
from fedswe.failures import TRACEBACK, explained
from fedswe.grid.cell import Cell
from fedswe.grid.executor import CHECKPOINT_SECONDS, Worker, WorkerDied
from fedswe.grid.stack import run_stack
from fedswe.grid.store import Store

_REPORT_SECONDS = 0.2  # between two messages of a worker about its rounds

# The store; name, configuration as TOML, and notes of each cell; contents that only this process has in memory.
Message = tuple[Store, list[tuple[str, str, dict[str, Any]]], dict[str, bytes]]


def count(device: str, jobs: int) -> int:
    """How many processes: one per core, and one for a GPU, which one stack of runs fills."""
    return jobs or (1 if device.startswith("cuda") else len(os.sched_getaffinity(0)))


class InProcess:
    """One worker, which is this process; every call of `receive` runs a round."""

    workers = 1

    def __init__(self, checkpoint_seconds: float = CHECKPOINT_SECONDS) -> None:
        self._checkpoint_seconds = checkpoint_seconds
        self._stopping = False
        self._steps: Iterator[int] = iter(())

    def start(self) -> InProcess:
        return self

    def release(self, worker: Worker) -> None:
        """It is kept already."""

    def wait(self, busy: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        return busy

    def begin(self, stack: Sequence[Cell], store: Store) -> None:
        self._stopping = False  # after an earlier stop
        self._steps = run_stack(stack, store, self._checkpoint_seconds, lambda: self._stopping)

    def receive(self) -> int | None:
        return next(self._steps, None)

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._steps = iter(())  # its claims end with it

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalProcesses:
    """Several processes with one thread each. They ignore SIGINT and SIGTERM, and end when this process ends."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._started: list[LocalProcess] = []
        self._released: list[LocalProcess] = []

    def start(self) -> LocalProcess:
        while self._released:
            worker = self._released.pop()
            if worker.process.poll() is None:  # not killed meanwhile
                return worker
        self._started.append(LocalProcess())
        return self._started[-1]

    def release(self, worker: Worker) -> None:
        self._released += [own for own in self._started if own is worker]

    def wait(self, busy: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        asked = {worker.connection: worker for worker in self._started if worker in busy}
        return [asked[connection] for connection in wait(asked, seconds) if isinstance(connection, Connection)]

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._started:
            worker.close()


class LocalProcess:
    """A new interpreter rather than multiprocessing's, which would run the user's main script again."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        self._sent: set[str] = set()  # digests of contents that the process has
        self._at = 0  # rounds of the stack completed when it last told
        same = f"import sys; sys.path[:], sys.argv[:] = {sys.path!r}, {sys.argv!r}"
        code = f"{same}; from fedswe.grid.local import serve; serve({theirs.fileno()})"
        # A terminal sends Ctrl-C to all processes of a command, and a scheduler its SIGTERM: this process decides what
        # they mean. Blocked signals stay blocked in the new process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def begin(self, stack: Sequence[Cell], store: Store) -> None:
        where, cells, contents = message(stack, store, self._sent)
        self._sent |= contents.keys()
        with suppress(OSError):  # it is dead, as `receive` will tell
            self.connection.send((where, cells, contents))

    def receive(self) -> int | None:
        try:
            received = self.connection.recv()
        except (EOFError, OSError):
            self.close()
            raise WorkerDied from None
        if isinstance(received, Exception):
            raise received
        if isinstance(received, str):
            warn(received, TrackerWarning)
            return self._at
        self._at = received or 0
        at: int | None = received
        return at

    def stop(self) -> None:
        with suppress(OSError):
            self.connection.send("stop")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()  # its claims have ended when it has
        self.connection.close()


def serve(handle: int) -> None:
    """What a worker process does: run the stacks that it receives until the connection ends."""
    import torch

    torch.set_num_threads(1)  # idle threads of one process would take the core of another
    connection, stacks, stopping = Connection(handle), queue.SimpleQueue[Message](), threading.Event()
    pass_on_tracker_warnings(connection.send)
    threading.Thread(target=_listen, args=(connection, stacks, stopping), daemon=True).start()
    while True:
        store, cells, contents = stacks.get()
        try:
            _run(connection, rebuilt(cells, contents), store, stopping)
            connection.send(None)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                traceback.print_exc()
            connection.send(explained(error) or RuntimeError(traceback.format_exc()))


def pass_on_tracker_warnings(send: Callable[[str], None]) -> None:
    """Ignore all other warnings of ours: the process that gave the command has shown them."""

    def show(text: Warning | str, category: type[Warning], *where: Any, **_: Any) -> None:
        if issubclass(category, TrackerWarning):
            send(str(text))

    warnings.simplefilter("ignore", FedsweWarning)
    warnings.simplefilter("always", TrackerWarning)
    warnings.showwarning = show  # type: ignore[assignment]


def message(stack: Sequence[Cell], store: Store, known: Collection[str] = ()) -> Message:
    """What a worker needs; it has the contents with the `known` digests already."""
    cells = [(cell.name, dump(cell.experiment), dict(cell.notes)) for cell in stack]
    return store, cells, in_memory.packed("".join(config for _, config, _ in cells), known)


def rebuilt(cells: Sequence[tuple[str, str, dict[str, Any]]], contents: dict[str, bytes]) -> list[Cell]:
    """The cells of a message. The experiments are built again here, so that users' own classes are found here."""
    in_memory.unpack(contents)
    return [Cell(name, load_text(config, name), notes) for name, config, notes in cells]


def _run(connection: Connection, cells: list[Cell], store: Store, stopping: threading.Event) -> None:
    reported_at = 0.0
    for at in run_stack(cells, store, CHECKPOINT_SECONDS, stopping.is_set):
        if time.monotonic() - reported_at > _REPORT_SECONDS:
            connection.send(at)
            reported_at = time.monotonic()


def _listen(connection: Connection, stacks: queue.SimpleQueue[Message], stopping: threading.Event) -> None:
    while True:
        try:
            received = connection.recv()
        except (EOFError, OSError):
            os._exit(1)  # the process that wanted the results is gone
        if received == "stop":
            stopping.set()
        else:
            stacks.put(received)
