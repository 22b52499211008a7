"""The command line: a mistake gives one line on stderr and exit code 2, Ctrl-C gives exit code 130."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import traceback
import warnings
from types import FrameType
from typing import Any

from fedswe.errors import FedsweWarning
from fedswe.plugins import TRACEBACK, explained


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # print "?" for a character that the encoding of a log lacks
    warnings.showwarning = _show_warning
    if "torch" not in sys.modules:  # which reads this when it is imported
        # A thread that spins while it waits takes the core of the thread it waits for when other processes run too.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a process may have to ignore SIGINT
    if ours:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from fedswe.cli.app import execute

        sys.exit(execute())
    except (Exception, SystemExit) as error:  # the latter from a class of the user's
        known = explained(error)
        if known is None:
            raise
        if known is not error and os.environ.get(TRACEBACK):
            traceback.print_exc()
        print(f"error: {_as_options(known)}", file=sys.stderr)
        sys.exit(2)
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **_: Any) -> None:
    """Our own warnings in one line; those of libraries are for developers, and not shown."""
    if issubclass(category, FedsweWarning):
        print(f"warning: {_as_options(message)}", file=sys.stderr)


def _as_options(message: object) -> str:
    """A message with options, where it names arguments of Python's functions: --tune-by, not tune_by=."""
    names = "algorithms|format|jobs|on|out|seeds|tune|tune_by|tuning_seed|x|y"
    argument = rf"""(?<![\w./"'-])({names})(?:=(?=[\s,:]|$)|(?=="))"""
    return re.sub(argument, lambda found: "--" + found[1].replace("_", "-"), str(message))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, except in an import: there the process ends at once.

    Extension modules such as torch's turn an exception during their import into another one or abort the process.
    """
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(128 + number)
        frame = frame.f_back
    raise KeyboardInterrupt
