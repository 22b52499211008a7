"""The error and the warning that a user sees: a single line that says what is wrong and what to change."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any


class FedsweError(ValueError):
    """Something the user gave cannot be used; the message is one line and names the remedy."""


class FedsweWarning(UserWarning):
    """A result will be there, but it may not be what the user wants; the message is one line."""


class TrackerWarning(FedsweWarning):
    """A tracker failed; the run goes on. Worker processes pass it on to the one that gave the command."""


def warn(message: str, category: type[FedsweWarning] = FedsweWarning) -> None:
    """Warn in one line, once in a process: the command line prints `warning: ...`, scripts have `warnings`."""
    if message in _WARNED:
        return
    _WARNED.add(message)
    # The line that Python shows beside it is the user's.
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_stack(sys._getframe())]
    level = next((i for i, file in enumerate(frames) if not is_installed(file)), 2)
    warnings.warn(message, category, stacklevel=level + 1)


_WARNED: set[str] = set()


def require(condition: object, message: str) -> None:
    """Raise ``FedsweError(message)`` unless ``condition`` holds."""
    if not condition:
        raise FedsweError(message)


def needed(module: str, extra: str) -> Any:
    """Import a module that only an extra of the package installs: needed("matplotlib.figure", "plot")."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise
        raise FedsweError(f"{error.name} is not installed: pip install 'fedswe[{extra}]'") from None


def suggestion(word: str, known: Iterable[str] | Mapping[str, str], otherwise: str | None = None) -> str:
    """`did you mean X?` if a known word is similar; else `otherwise`, or the known words.

    A mapping gives, for each known word, the text to write instead.
    """
    known = known if isinstance(known, Mapping) else {name: name for name in known}
    # With a lower cutoff, the dashes alone would make options similar.
    if close := get_close_matches(word, known, n=1, cutoff=0.65):
        return f"did you mean {known[close[0]]}?"
    return f"known are {', '.join(known) or 'none'}" if otherwise is None else otherwise


def printable(text: str) -> str:
    """Text from outside in one line: control characters, escape sequences and line ends are shown, not obeyed."""
    joiners = "\u200c\u200d"  # in names of Persian and Indic scripts
    shown = (c if c.isprintable() or c in joiners else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)


def first_line(error: BaseException) -> str:
    """An exception in one line."""
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def located(error: BaseException) -> str | None:
    """`./mine.py:12: TypeError: ... (in plan of Mine)`, where an exception passed through a file of the user's."""
    if isinstance(error, SyntaxError) and error.filename and not is_installed(error.filename):
        return f"{_shown(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in frames if not is_installed(code.co_filename)]
    if not own:
        return None
    code, line = own[-1]
    *owner, function = code.co_qualname.replace(".<locals>", "").split(".")
    inside = "" if function == "<module>" else f" (in {function}{f' of {owner[-1]}' if owner else ''})"
    return f"{_shown(code.co_filename)}:{line}: {first_line(error)}{inside}"


@contextmanager
def mistakes_as(problem: str, hint: str = "") -> Iterator[None]:
    """Whatever a user's code or file raises is one line: the problem, where it arose in the user's code, and a hint."""
    try:
        yield
    except FedsweError:
        raise
    except (Exception, SystemExit) as error:
        raise FedsweError(f"{problem} ({located(error) or first_line(error)}){hint}") from None


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python, to an installed package or to this one, and not to the user."""
    path = Path(file)
    cell = file in linecache.cache and not file.startswith("<")  # of a notebook
    if not (cell or path.is_file()) or {"site-packages", "dist-packages"} & set(path.parts):
        return True
    package = Path(__file__).resolve().parent.parent
    python = [Path(sysconfig.get_path(key)) for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(map(path.resolve().is_relative_to, [package / "fedswe", package / "fedswe_paper", *python]))


def _shown(file: str) -> str:
    """A path from the current directory, if it is below that."""
    path, here = Path(file).resolve(), Path(os.getcwd()).resolve()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
