"""The ClientApps of a node: each message has its own process, forked from one that has imported torch."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResult

from fedswe.deploy.flower.node.pauses import idle_pause
from fedswe.deploy.flower.node.signs_of_life import Sender
from fedswe.errors import FedsweError

_PRELOADED = ["flwr.supernode.runtime.run_clientapp", "fedswe.deploy.flower.apps"]
_SHORTEST, _LONGEST = 0.05, 1.0  # seconds between two requests to the SuperNode for work
_GRACE = 5.0  # seconds after the end of its message that a ClientApp may run


@dataclass
class _Running:
    process: BaseProcess
    news: Connection  # the seconds that the message is worth answering, then True when the answer was accepted
    until: float = float("inf")
    answered: bool = False
    closed: bool = False

    def read(self) -> None:
        try:
            while not self.closed and self.news.poll():
                item = self.news.recv()
                if item is True:
                    self.answered = True
                else:
                    self.until = time.monotonic() + float(item) + _GRACE
        except (EOFError, OSError):
            self.closed = True


class PreloadedClientApps(SubprocessExecutor):
    """An executor for Flower's SuperExec. Tasks other than ClientApps are new processes, as usual."""

    def __init__(self, life: Sender) -> None:
        self._life = life
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)
        forkserver.ensure_running()  # it imports while the SuperNode connects
        self._running: list[_Running] = []
        self._worked = time.monotonic()

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        if spec.task_type is not TaskType.CLIENT_APP or spec.runtime_dependency_install:
            return super().launch(spec)
        news, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=answer, args=(spec, sender))
        process.start()
        sender.close()
        self._running.append(_Running(process, news))
        self._worked = time.monotonic()
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Called before every request for work: wait, and end this process if a message will have no answer.

        The SuperNode waits for the answer of a ClientApp, and Flower has no way to tell it that there will be none.
        """
        self._life.send()
        pause = idle_pause(time.monotonic() - self._worked, _SHORTEST, _LONGEST)
        watched: list[int | Connection] = [one.process.sentinel for one in self._running]
        watched += [one.news for one in self._running if not one.closed]
        if connection.wait(watched, pause):
            self._worked = time.monotonic()
        for one in list(self._running):
            one.read()
            if time.monotonic() > one.until and not one.answered and one.process.is_alive():
                one.process.kill()
                raise FedsweError(
                    "a ClientApp had no answer when its message expired: its node starts again; "
                    "raise deploy.deadline if local training takes longer"
                )
            if not one.process.is_alive():
                one.read()
                if not one.answered:
                    raise FedsweError(
                        f"a ClientApp ended without an answer (exit code {one.process.exitcode}): its node starts again"
                    )
                self._running.remove(one)

    def close(self) -> None:
        for one in self._running:
            with suppress(ValueError):
                one.process.kill()


def answer(spec: ExecutionSpec, news: Connection) -> None:
    """Run Flower's ClientApp process here, in a fork, and tell the SuperExec how far it is."""
    from flwr.supernode.runtime import run_clientapp as flower

    with suppress(OSError), open("/proc/self/comm", "w") as name:
        name.write("flwr-clientapp")
    pull, push = flower.pull_task_input, flower.push_message

    def pull_task_input(client):  # type: ignore[no-untyped-def]
        task = pull(client)
        news.send(task[0].metadata.ttl)
        return task

    def push_message(client, message, context):  # type: ignore[no-untyped-def]
        push(client, message, context)
        news.send(True)

    flower.pull_task_input, flower.push_message = pull_task_input, push_message
    certificates = None
    if spec.root_certificates_path:
        with open(spec.root_certificates_path, "rb") as file:
            certificates = file.read()
    flower.run_clientapp(spec.runtime_api_address, spec.token, spec.insecure, certificates, spec.parent_pid)
