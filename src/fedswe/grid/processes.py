"""Processes that share many runs: one thread each, deaf to Ctrl-C, and gone with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

import torch


class Workers(ProcessPoolExecutor):
    """`begin` is called in each process before it works."""

    def __init__(self, count: int, begin: Callable[..., None] | None = None, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        theirs, self._lifeline = context.Pipe(duplex=False)
        super().__init__(count, context, _begin, (theirs, begin, arguments))

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        with _heard_here_only(signal.SIGINT):  # a process starts when there is work for it
            return super().submit(work, *arguments, **named)

    def abandon(self) -> None:
        """End all processes now, whatever they are at."""
        self._lifeline.close()


@contextmanager
def _heard_here_only(number: signal.Signals) -> Iterator[None]:
    """A terminal sends Ctrl-C to all processes; those that are started meanwhile inherit that it is blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(lifeline: Connection, begin: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)  # idle threads of one process would steal the other's core
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    if begin is not None:
        begin(*arguments)


def _end_with(lifeline: Connection) -> None:
    """End when the other end is closed, be it that its process was killed: nobody would see what is done here."""
    wait([lifeline])
    os._exit(1)
