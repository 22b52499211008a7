"""The page of a command that runs something: served by a process of its own, so that the command is not slowed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedswe.live.serve import address, listen

_PATIENCE = 5.0  # seconds for the server to send its last news and end


@contextmanager
def served_beside(directory: Path) -> Iterator[str]:
    """The address of a page that follows a directory, which need not exist yet, until the end of the context.

    The server ends when its standard input is closed, so also when this process is killed.
    """
    with listen(None) as listening:
        listening.listen()  # a browser that is faster than the server waits
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedswe.live", str(listening.fileno()), str(directory.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
            start_new_session=True,  # Ctrl-C is for the command
        )
        where = address(listening)
    assert server.stdin is not None
    try:
        yield where
    finally:
        server.stdin.close()
        try:
            server.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
