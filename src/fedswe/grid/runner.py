"""Run a grid: divide its unfinished cells into stacks, and run these here or in joblib's workers.

Killed, a grid continues from its last checkpoints when the same command is given again. Asked to stop (Ctrl-C, or the
SIGTERM of a scheduler), it writes checkpoints after the round it is in.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Self

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor

from fedswe.core import in_memory
from fedswe.errors import FedsweError, FedsweWarning, TrackerWarning, first_line, mistakes_as, needed, require, warn
from fedswe.experiment.configuration import dump, load_text
from fedswe.grid.stack import divide, rounds_of, run_stack
from fedswe.grid.store import Cell, Store
from fedswe.plugins import TRACEBACK, explained
from fedswe.tracking import check_trackers

_STOP = (signal.SIGINT, signal.SIGTERM)
_DEATHS = 5  # of workers, in a row, without a finished cell before the command gives up
_PATIENCE = 60.0  # seconds until the claims of a dead worker have ended, on a network file system too
_IDLE_PASSES = 10  # in which no cell was run, although no process has claimed one, before the command gives up
_REPORT_SECONDS = 0.2  # between two notes of a worker about its rounds
_IDLE_SECONDS = 60  # until a local worker without a stack ends

Watch = Callable[[int, int], None]  # rounds run, rounds to run
_Sent = list[tuple[str, str, dict[str, Any]]]  # of each cell its name, configuration and notes
# Current directory, arguments of the command, environment, process id.
_Place = tuple[str, list[str], dict[str, str], int]


class Executor:
    """Where stacks are run: in this process (one worker), or by several workers of joblib. Open it with `with`.

    `on` is local, ray or dask; the latter two take the address of a cluster as Ray and Dask do (RAY_ADDRESS,
    DASK_SCHEDULER_ADDRESS), and start one on this machine without it. `jobs` is the number of workers; 0 stands for one
    per core, or one per GPU.
    """

    def __init__(self, on: str = "local", jobs: int = 0, device: str = "cpu") -> None:
        require(jobs >= 0, f"jobs= must be 0 (one per core, one for a GPU) or positive, not {jobs}")
        require(on in ("local", "ray", "dask"), f"on= must be local, ray or dask, not {on!r}")
        self.on, self._jobs, self._resource = on, jobs, "GPU" if device.startswith("cuda") else "CPU"
        # One stack of runs fills a GPU.
        self.workers = jobs or (1 if self._resource == "GPU" else len(os.sched_getaffinity(0)))
        self._opened, self._started = ExitStack(), False

    def __enter__(self) -> Self:
        if self.on == "local":
            return self
        with mistakes_as(f'on="{self.on}": cannot connect'):
            there = self._ray() if self.on == "ray" else self._dask()
        if not there:
            self._opened.close()
            raise FedsweError(f'on="{self.on}": there is no {self._resource}: add one, or choose another device')
        self.workers = min(self._jobs or there, there)
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:  # modules of the user may change until the next command
            get_reusable_executor(reuse=True).shutdown(kill_workers=True)
        self._opened.close()

    def _ray(self) -> int:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray, backend = needed("ray", "ray"), needed("ray.util.joblib", "ray")
        backend.register_ray()
        if not ray.is_initialized():
            ray.init(logging_level="ERROR", log_to_driver=False, include_dashboard=False)
            self._opened.callback(ray.shutdown)
        return int(ray.cluster_resources().get(self._resource, 0))

    def _dask(self) -> int:
        return sum(self._opened.enter_context(needed("distributed", "dask").Client()).nthreads().values())

    def run(self, tasks: list[Any]) -> list[Any]:
        """What joblib's workers return for the tasks; raises what the backend does when one of them dies."""
        # A terminal sends Ctrl-C to all processes of a command: the main thread decides what it means. Signals that are
        # blocked in this thread stay blocked in the processes that it starts; the start of the tracker unblocks them.
        self._started = self.on == "local"
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        options: dict[str, dict[str, Any]] = {
            "local": {"backend": "loky", "idle_worker_timeout": _IDLE_SECONDS},
            "ray": {"backend": "ray", "ray_remote_args": {f"num_{self._resource.lower()}s": 1}},
            "dask": {"backend": "dask"},
        }
        with parallel_config(**options[self.on], n_jobs=max(2, min(self.workers, len(tasks)))):
            return list(Parallel()(tasks))


def run_cells(cells: Sequence[Cell], store: Store, executor: Executor, watch: Watch | None = None) -> None:
    """Run every cell that is neither finished nor claimed by another command, and those that others give up meanwhile.

    Raises KeyboardInterrupt after it was asked to stop and has saved everything.
    """
    check_trackers(list(dict.fromkeys(name for cell in cells for name in cell.experiment.track)))
    deaths = idle = 0
    while left := _unclaimed(cells, store):
        with store.claim(left[0]):
            pass  # on a file system without locks this warns, once and not in every worker
        death = _run_once(divide(left, executor.workers), store, executor, watch)
        finished = any(store.finished(cell) for cell in left)
        deaths, idle = (0, 0) if finished else (deaths + bool(death), 0 if death else idle + 1)
        died = f"{deaths} times a worker died before {left[0].name} or another cell was finished ({death})"
        require(deaths < _DEATHS, f"{died}; the memory may be too small: continue with fewer jobs=")
        stuck = f"{left[0].name} could not be claimed, though no process has it (cells left: {len(left)})"
        require(idle < _IDLE_PASSES, f"{stuck}: all workers must share {store.path}, and be able to lock files there")
        time.sleep(0.1 if idle else 0.0)  # another command may have tried at the same moment


def _unclaimed(cells: Sequence[Cell], store: Store) -> list[Cell]:
    left = [cell for cell in {cell.name: cell for cell in cells}.values() if not store.finished(cell)]
    claimed = {cell.name for cell in store.running(left)}
    return [cell for cell in left if cell.name not in claimed]


def _run_once(stacks: list[list[Cell]], store: Store, executor: Executor, watch: Watch | None) -> str:
    """Run the stacks once; returns what is known of the death of a worker, after which some have not ended."""
    progress, death = _Progress(stacks, watch), ""
    with _command(store) as notes:
        going = notes / "going"
        if executor.workers == 1:
            for number, stack in enumerate(stacks):
                for position in run_stack(stack, store, lambda: not going.exists()):
                    progress.show({number: position})
        else:
            death = _run_elsewhere(stacks, store, executor, notes, progress)
        going.unlink(missing_ok=True)  # after a death other workers may go on
        end = time.monotonic() + _PATIENCE
        while death and store.running(chain(*stacks)) and time.monotonic() < end:
            time.sleep(0.2)
        if (notes / "asked").exists():
            raise KeyboardInterrupt
    return death


def _run_elsewhere(stacks: list[list[Cell]], store: Store, executor: Executor, notes: Path, progress: _Progress) -> str:
    shared = replace(store, path=store.path.absolute())
    environment = {name: value for name, value in os.environ.items() if name.startswith("FEDSWE_")}
    place = os.getcwd(), sys.argv, environment, os.getpid() if executor.on == "local" else 0
    sent = [[(cell.name, dump(cell.experiment), dict(cell.notes)) for cell in stack] for stack in stacks]
    contents = in_memory.packed("".join(config for stack in sent for _, config, _ in stack))
    tasks = [delayed(_work)(stack, contents, shared, notes / str(i), place) for i, stack in enumerate(sent)]
    with ThreadPoolExecutor(1) as thread:  # waits for it: the workers end when the file is gone
        ended = thread.submit(executor.run, tasks)
        try:
            while not ended.done():
                wait([ended], _REPORT_SECONDS)
                for file in notes.glob("[0-9]*"):
                    with suppress(ValueError):  # it is being written
                        progress.show({int(file.name): json.loads(file.read_text())})
        except BaseException:
            (notes / "going").unlink(missing_ok=True)
            raise
    if (error := ended.exception()) is not None:
        return first_line(error)
    for text in {text for warned, _ in ended.result() for text in warned}:
        warn(text, TrackerWarning)
    for _, failure in ended.result():
        if failure is not None:
            raise failure
    return ""


def _work(
    sent: _Sent, contents: dict[str, bytes], store: Store, note: Path, place: _Place
) -> tuple[list[str], Exception | None]:
    """What a worker does: run a stack, and note its rounds in a file. Returns warnings of trackers, and the failure."""
    import torch

    torch.set_num_threads(1)  # idle threads of one process would take the core of another
    folder, sys.argv[:], environment, command = place
    with suppress(OSError):  # another machine may lack it, and may not need it
        os.chdir(folder)
    os.environ.update(environment)
    parent, noted_at, going = command or os.getppid(), 0.0, note.with_name("going")

    def stopping() -> bool:
        if os.getppid() != parent:
            os._exit(1)  # the process that wanted the results is gone
        return not going.exists()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", FedsweWarning)  # the process that gave the command has shown them
        warnings.simplefilter("always", TrackerWarning)
        failure: Exception | None = None
        try:
            in_memory.unpack(contents)
            # The experiments are built again here, so that users' own classes are found here.
            cells = [Cell(name, load_text(config, name), notes) for name, config, notes in sent]
            position = None
            for position in () if stopping() else run_stack(cells, store, stopping):
                if time.monotonic() - noted_at > _REPORT_SECONDS:
                    note.write_text(json.dumps(position))
                    noted_at = time.monotonic()
            note.write_text(json.dumps(position or (0, 0)))
        except (Exception, SystemExit) as error:
            if os.environ.get(TRACEBACK):
                traceback.print_exc()
            failure = explained(error) or RuntimeError(traceback.format_exc())
            going.unlink(missing_ok=True)
    return [str(w.message) for w in caught if issubclass(w.category, TrackerWarning)], failure


class _Progress:
    """Tells the watch how many rounds this command has run, without those that were there before."""

    def __init__(self, stacks: Sequence[Sequence[Cell]], watch: Watch | None) -> None:
        self._rounds, self._watch, self._shown = sum(map(rounds_of, stacks)), watch, (-1, -1)
        self._stacks: dict[int, Sequence[int]] = {}  # rounds of each when this command began to run it, and now

    def show(self, positions: Mapping[int, Sequence[int]]) -> None:
        self._stacks |= positions
        before = sum(first for first, _ in self._stacks.values())
        state = sum(at for _, at in self._stacks.values()) - before, self._rounds - before
        if self._watch is not None and state != self._shown:
            self._shown = state
            self._watch(*state)


@contextmanager
def _command(store: Store) -> Iterator[Path]:
    """A folder for the notes of workers, who go on while it has the file `going`.

    The first SIGINT or SIGTERM removes it, and makes the file `asked`; one that comes more than a second later has its
    usual effect. Not earlier: `timeout` sends its signal to the command and to the command's group, and so twice.
    """
    asked, before = math.inf, dict[int, Any]()

    def ask(number: int, _: object) -> None:
        nonlocal asked
        if time.monotonic() > asked + 1.0:
            signal.signal(number, before[number])
            signal.raise_signal(number)
        asked = min(asked, time.monotonic())
        going.with_name("asked").touch()
        going.unlink(missing_ok=True)

    folder = store.locks.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="command-", dir=folder, ignore_cleanup_errors=True) as notes:
        going = Path(notes) / "going"
        going.touch()
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            before = {n: signal.signal(n, ask) for n in _STOP}
        try:
            yield Path(notes)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
