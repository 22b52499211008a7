"""Running a command on a machine that others may use too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from quiet import Others

TIMEOUT = 300.0  # seconds, for one command
GRACE = 5.0  # seconds before a disturbance is judged


class DisturbedError(Exception):
    """Other programs took more of the processors than allowed."""


def output(command: list[str], allowed: float, isolated: bool) -> tuple[str, float]:
    """Standard output of a command, and the share of the processors that other programs took meanwhile.

    The command is stopped, with all its children, if it takes too long or others take more than allowed. If isolated,
    it sees only packages of its own environment, and its temporary files are deleted even if it is stopped.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        environment = os.environ | ({"TMPDIR": folder, "PYTHONPATH": ""} if isolated else {})
        with out.open("w") as stdout, err.open("w") as stderr:
            others, start = Others(), time.monotonic()
            try:
                process = subprocess.Popen(
                    command, stdout=stdout, stderr=stderr, env=environment, start_new_session=True
                )
            except OSError as error:
                raise RuntimeError(str(error)) from error
            try:
                while not finished(process):
                    share, seconds = others.share(), time.monotonic() - start
                    if seconds > TIMEOUT:
                        raise RuntimeError(f"stopped after {TIMEOUT:g} s")
                    if seconds > GRACE and share > allowed:
                        raise DisturbedError(f"other programs took {share:.0%} of the processors")
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode:
            last = err.read_text().strip().splitlines()[-1:] or ["no message"]
            raise RuntimeError(f"exit status {process.returncode}: {last[0]}")
        return out.read_text(), others.share()


def finished(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, after half a second at most."""
    try:
        process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return False
    return True


def json_lines(text: str) -> list[dict[str, Any]]:
    """The measurements in a program's output: lines that are a JSON object or a list of them; others are ignored."""
    lines = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict) and {"workload", "client_steps_per_s"} <= item.keys():
                lines.append(item)
    if not lines:
        raise RuntimeError("printed no line of JSON with workload and client_steps_per_s")
    return lines
