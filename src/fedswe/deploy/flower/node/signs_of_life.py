"""A process shows its parent that it runs, and learns that the parent has ended, over one pipe."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

_INTERVAL = 1.0  # seconds between two signs of a thread


def end_at_the_first_signal() -> None:
    """Call it before Flower's programs set their handlers, which restore what was there before when they begin to end.

    A second SIGTERM would otherwise kill a program that is deregistering; a group of processes often gets two.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


class Sender:
    """The child's side."""

    def __init__(self, handle: int) -> None:
        os.set_blocking(handle, False)
        self._handle = handle

    def send(self) -> None:
        """Raises BrokenPipeError if the parent has ended."""
        with suppress(BlockingIOError):  # the parent is suspended, and the pipe is full
            os.write(self._handle, b".")

    def send_from_thread(self) -> None:
        """Send as long as this process runs; SIGTERM to this process while the parent is gone."""

        def run() -> None:
            while True:
                try:
                    self.send()
                except BrokenPipeError:
                    os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(_INTERVAL)

        threading.Thread(target=run, daemon=True).start()


class Receiver:
    """The parent's side."""

    def __init__(self, first: float, further: float) -> None:
        """The first sign must come within `first` seconds, and each other within `further` seconds of the last."""
        self._read, self.handle = os.pipe()  # the child inherits `handle`
        os.set_blocking(self._read, False)
        self._further, self._until = further, time.monotonic() + first

    def started(self) -> None:
        """The child has inherited its end."""
        os.close(self.handle)

    def silent(self) -> bool:
        """Whether the child should have shown a sign by now."""
        with suppress(BlockingIOError):
            if os.read(self._read, 65536):
                self._until = time.monotonic() + self._further
        return time.monotonic() > self._until

    def close(self) -> None:
        os.close(self._read)
