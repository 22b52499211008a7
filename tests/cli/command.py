"""The command line as a user meets it: in this process, or as a real one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedswe.cli import main


def fedswe(monkeypatch, capsys, *words):
    """Exit code, stdout and stderr of a command run in this process."""
    monkeypatch.setattr(sys, "argv", ["fedswe", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


def process(*words, encoding_of_output="utf-8", **options):
    """A real process, with one thread like the tests themselves: sums depend on the number of threads."""
    command = [sys.executable, "-m", "fedswe", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": encoding_of_output}
    return subprocess.Popen(command, env=environment, **options)


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def workers_of(comparison, out):
    """The processes of a comparison that has begun to run."""
    wait_for(lambda: list(out.glob("runs/*/config.toml")))
    children = [c for file in Path(f"/proc/{comparison.pid}/task").glob("*/children") for c in file.read_text().split()]
    return [int(c) for c in children if "popen_loky" in Path(f"/proc/{c}/cmdline").read_text()]
