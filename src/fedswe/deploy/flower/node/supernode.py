"""Flower's SuperNode with short pauses: `python -m fedswe.deploy.flower.node.supernode HANDLE OPTIONS...`.

Flower 1.41 sleeps 3 s when there is no message and 0.5 s when a ClientApp has not answered yet, without an option. The
module that sleeps is given a clock of ours. HANDLE is the file descriptor for signs of life.
"""

from __future__ import annotations

import sys
import time
from types import ModuleType

from fedswe.deploy.flower.node.pauses import idle_pause
from fedswe.deploy.flower.node.signs_of_life import Sender, end_at_the_first_signal
from fedswe.errors import warn

_IDLE = 3  # what Flower sleeps when there is no message; everything else is waiting for a ClientApp
_SHORTEST = 0.1  # seconds between two requests to the SuperLink
_ANSWER = 0.05  # seconds between two looks whether the ClientApp has answered, in the memory of the SuperNode


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self._worked = time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds == _IDLE:
            time.sleep(idle_pause(time.monotonic() - self._worked, _SHORTEST, seconds))
        else:
            self._worked = time.monotonic()
            time.sleep(min(seconds, _ANSWER))


def shorten_pauses(module: ModuleType) -> None:
    """Give a module of Flower our clock, if it calls `time.sleep` through its module `time`."""
    if getattr(module, "time", None) is time:
        module.time = Clock()  # type: ignore[attr-defined]
    else:
        warn("this version of Flower waits in another way: rounds will take some seconds more")


def main() -> None:
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    Sender(int(sys.argv.pop(1))).send_from_thread()
    shorten_pauses(start_client_internal)
    end_at_the_first_signal()
    flower_supernode()


if __name__ == "__main__":
    main()
