"""Runs the server of the page on the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn

from fedswe.errors import FedsweError
from fedswe.live.app import application
from fedswe.live.hub import Hub

PORT = 8765  # if it is free and no other is asked for


def listen(port: int | None) -> socket.socket:
    """A socket on 127.0.0.1 with this port; without one, with the usual port or any that is free."""
    for wanted in (PORT, 0) if port is None else (port,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", wanted))
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            reason = getattr(error, "strerror", None) or str(error)
    raise FedsweError(f"cannot listen on port {port} of 127.0.0.1 ({reason}): choose another --port")


def address(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}/"


def serve(roots: Sequence[Path], listening: socket.socket, until_closed: int | None = None) -> None:
    """Serve until SIGINT or SIGTERM arrives, or a pipe is closed at its other end."""
    asyncio.run(_serve(roots, listening, until_closed))


async def _serve(roots: Sequence[Path], listening: socket.socket, until_closed: int | None) -> None:
    hub = Hub(roots)
    config = uvicorn.Config(
        application(hub, listening.getsockname()[1]),
        log_level="error",
        access_log=False,
        ws="none",
        http="h11",  # limits the size of headers, which httptools does not
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = _Server(config)

    loop = asyncio.get_running_loop()

    def stop() -> None:
        if until_closed is not None:
            loop.remove_reader(until_closed)
        server.should_exit = True
        hub.close()  # streams have no end of their own

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if until_closed is not None:
        loop.add_reader(until_closed, stop)
    await server.serve([listening])


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled above: uvicorn would raise them once more at its end."""
        yield
