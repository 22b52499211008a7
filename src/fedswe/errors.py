"""The error and the warning that a user sees: a single line that says what is wrong and what to change."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches


class FedsweError(ValueError):
    """Something the user gave cannot be used; the message is one line and names the remedy."""


class FedsweWarning(UserWarning):
    """A result will be there, but it may not be what the user wants; the message is one line."""


def warn(message: str) -> None:
    """Warn in one line: the command line prints `warning: ...`, Python scripts have the module `warnings`."""
    warnings.warn(message, FedsweWarning, stacklevel=3)


def require(condition: object, message: str) -> None:
    """Raise ``FedsweError(message)`` unless ``condition`` holds."""
    if not condition:
        raise FedsweError(message)


def suggestion(word: str, known: Iterable[str] | Mapping[str, str], otherwise: str | None = None) -> str:
    """`did you mean X?` if a known word is similar; else `otherwise`, or the known words.

    A mapping gives, for each known word, the text to write instead.
    """
    known = known if isinstance(known, Mapping) else {name: name for name in known}
    # With a lower cutoff, the dashes alone would make options similar.
    if close := get_close_matches(word, known, n=1, cutoff=0.65):
        return f"did you mean {known[close[0]]}?"
    return f"known are {', '.join(known) or 'none'}" if otherwise is None else otherwise
