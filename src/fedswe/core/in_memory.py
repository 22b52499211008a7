"""Parts of an experiment that a script holds in memory: a task of its own arrays, an array of availability.

A configuration names such a part by the digest of its content. The content itself is found here, in the process that
made it; a grid sends it to its workers.
"""

from __future__ import annotations

import pickle
import re
from typing import Any
from weakref import WeakValueDictionary

from fedswe.errors import FedsweError

_HELD: WeakValueDictionary[str, Any] = WeakValueDictionary()  # a part lives as long as the script uses it
_RECEIVED: dict[str, Any] = {}  # from the process that this one works for


def hold(digest: str, content: Any) -> Any:
    """Make the content findable; the content that has this digest already is used instead."""
    return _HELD.setdefault(digest, content)


def find(digest: str, made_by: str) -> Any:
    """The content with this digest; `made_by` is the function that makes it, for the message."""
    content = _HELD.get(digest)
    if content is None:
        raise FedsweError(
            f"the content made by {made_by} (digest {digest[:12]}) exists only in the script that made it: "
            f"call {made_by} with the same content first, and continue from Python"
        )
    return content


def packed(configuration: str) -> dict[str, bytes]:
    """The contents that configurations name, to be sent to another process of this user."""
    named = set(re.findall(r'digest = "([0-9a-f]{64})"', configuration)) & set(_HELD)
    if not named:
        return {}
    import cloudpickle  # also classes and functions of the main script, which a worker cannot import

    return {digest: cloudpickle.dumps(_HELD[digest]) for digest in named}


def unpack(contents: dict[str, bytes]) -> None:
    """Hold the contents that another process of this user packed. They are unpickled: never call it with others."""
    for digest, content in contents.items():
        if digest not in _HELD:
            _RECEIVED[digest] = hold(digest, pickle.loads(content))
