"""Workers on a Ray cluster, or on a Ray instance that is started on this machine.

All machines use the same directory: the store must be on a file system that they share.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import sysconfig
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedswe.errors import FedsweError, TrackerWarning, require, warn
from fedswe.failures import explained
from fedswe.grid.cell import Cell
from fedswe.grid.executor import CHECKPOINT_SECONDS, Worker, WorkerDied
from fedswe.grid.local import Message, message, pass_on_tracker_warnings, rebuilt
from fedswe.grid.stack import run_stack
from fedswe.grid.store import Store
from fedswe.results.files import write_whole

_POLL_SECONDS = 0.3  # between two questions how far a worker is
_OBJECT_STORE = 2**27  # bytes; results go through files, not through Ray


class RayWorkers:
    """Actors with one CPU each, or one GPU each where the experiments use one."""

    def __init__(self, address: str, jobs: int, device: str) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns that its default will change
        try:
            import ray
        except ImportError:
            raise FedsweError("--on ray needs Ray: pip install 'fedswe[ray]'") from None
        self._ray: Any = ray
        self._address, self._jobs = address, jobs
        self._resource = "GPU" if device.startswith("cuda") else "CPU"
        self._connected = False  # by this object
        self._started: list[RayWorker] = []
        self._released: list[Worker] = []  # they hold their CPU or GPU: new ones would wait for it for ever
        self._tokens: set[Path] = set()
        self._token = f".shared-{uuid.uuid4().hex}"
        self.workers = jobs

    def __enter__(self) -> RayWorkers:
        local: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE}
        if self._jobs:
            local["num_cpus"] = self._jobs
        if not self._ray.is_initialized():
            _check_address(self._address)
            where = {"address": self._address} if self._address else local
            before = signal.getsignal(signal.SIGTERM)
            try:
                self._ray.init(logging_level=logging.ERROR, log_to_driver=False, **where)
            except (OSError, RuntimeError, ValueError) as error:
                reason = str(error).strip().partition("\n")[0]
                raise FedsweError(f"cannot connect to Ray at {self._address or 'this machine'}: {reason}") from None
            self._connected = True
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray has replaced it by a handler of its own
        there = int(self._ray.cluster_resources().get(self._resource, 0))
        if not there:
            self.__exit__()
            raise FedsweError(f"the Ray cluster has no {self._resource}: add one, or choose another device")
        self.workers = min(self._jobs or there, there)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._started:
            worker.close()
        for token in self._tokens:
            token.unlink(missing_ok=True)
        if self._connected:
            self._ray.shutdown()

    def start(self) -> Worker:
        if self._released:
            return self._released.pop()
        needs = {"num_cpus": 1, "num_gpus": int(self._resource == "GPU")}
        actor = self._ray.remote(_Actor).options(
            **needs,
            max_concurrency=3,  # one method runs the stack while others answer
            runtime_env={"env_vars": _environment()},
        )
        self._started.append(RayWorker(self._ray, actor.remote(os.getcwd(), sys.argv), self._shared))
        return self._started[-1]

    def release(self, worker: Worker) -> None:
        self._released.append(worker)

    def _shared(self, folder: Path) -> Path:
        """A file in the folder that workers look for, to see whether they share the folder."""
        token = folder / self._token
        if token not in self._tokens:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(token, "")
            self._tokens.add(token)
        return token

    def wait(self, busy: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        asked = [worker for worker in self._started if worker in busy]
        waiting = [reference for worker in asked for reference in (worker.ended, worker.position)]
        ready = self._ray.wait(waiting, num_returns=1, timeout=seconds)[0]
        return [worker for worker in asked if worker.ended in ready or worker.position in ready]


def _check_address(address: str) -> None:
    """Refuse an address that does not answer: Ray itself would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)
    if found is not None:
        try:
            socket.create_connection((found[1], int(found[2])), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise FedsweError(f"cannot connect to Ray at {address}: {error}") from None


def _environment() -> dict[str, str]:
    """What lets a worker find the same modules and data as this process."""
    installed = [Path(path) for path in sysconfig.get_paths().values()]
    folders = [os.path.abspath(path) for path in sys.path]
    folders = [folder for folder in folders if not any(Path(folder).is_relative_to(path) for path in installed)]
    ours = {name: value for name, value in os.environ.items() if name.startswith("FEDSWE_")}
    return {"PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1", **ours}


class RayWorker:
    def __init__(self, ray: Any, actor: Any, shared: Any) -> None:
        self._ray, self._actor, self._shared = ray, actor, shared
        self.ended: Any = None  # references to what the actor will answer
        self.position: Any = None

    def begin(self, stack: Sequence[Cell], store: Store) -> None:
        store = replace(store, path=store.path.absolute())
        self.ended = self._actor.run.remote(message(stack, store), self._shared(store.path))
        self.position = self._actor.position.remote()

    def receive(self) -> int | None:
        try:
            if self._ray.wait([self.ended], timeout=0)[0]:
                for text in self._ray.get(self.ended):
                    warn(text, TrackerWarning)
                return None
            at: int = self._ray.get(self.position)
            self.position = self._actor.position.remote()
            return at
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, FedsweError) else RuntimeError(str(error))) from None
        except self._ray.exceptions.RayError:
            raise WorkerDied from None

    def stop(self) -> None:
        self._actor.stop.remote()

    def close(self) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor)


class _Actor:
    """The worker, in a process of Ray's. Its methods run in threads of their own."""

    def __init__(self, folder: str, arguments: list[str]) -> None:
        with suppress(OSError):  # another machine may lack it, and may not need it
            os.chdir(folder)
        sys.argv[:] = arguments
        self._at: int | None = None
        self._stopping = threading.Event()

    def run(self, received: Message, token: Path) -> list[str]:
        """Run a stack; returns the warnings of trackers."""
        import torch

        torch.set_num_threads(1)
        warned: list[str] = []
        pass_on_tracker_warnings(warned.append)
        self._at = None
        require(
            token.exists(),
            f"the Ray worker on {socket.gethostname()} does not see {token.parent}: "
            "choose an --out that all machines share",
        )
        store, cells, contents = received
        try:
            for at in run_stack(rebuilt(cells, contents), store, CHECKPOINT_SECONDS, self._stopping.is_set):
                self._at = at
        except Exception as error:
            raise explained(error) or error from None
        return warned

    def position(self) -> int:
        """The rounds of the stack completed so far. It waits before it returns, so that it is not called too often."""
        time.sleep(_POLL_SECONDS)
        while self._at is None:
            time.sleep(0.05)
        return self._at

    def stop(self) -> None:
        self._stopping.set()
