"""The command line as a user meets it: in this process, or as a real one."""

import os
import subprocess
import sys

import pytest

from fedswe.cli import main


def fedswe(monkeypatch, capsys, *words):
    """Exit code, stdout and stderr of a command run in this process."""
    monkeypatch.setattr(sys, "argv", ["fedswe", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


def process(*words, **options):
    """A real process, with one thread like the tests themselves: sums depend on the number of threads."""
    command = [sys.executable, "-m", "fedswe", *map(str, words)]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)
