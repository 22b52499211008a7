"""Pickles of numbers, texts, lists and dictionaries, read without Python's unpickler.

An unpickler calls what a pickle names, and can be made to crash or to allocate without end. Here a pickle is a list of
operations, of which only those that build plain values are known.
"""

from __future__ import annotations

import io
import pickletools
from typing import Any

_LARGEST = 2**63  # of whole numbers
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_MARK = object()


def loads(content: bytes) -> Any:
    """The value of a pickle; ValueError if it holds anything else or is damaged."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}

    def since_mark() -> list[Any]:
        place = len(stack) - 1 - stack[::-1].index(_MARK)
        found = stack[place + 1 :]
        del stack[place:]
        return found

    try:
        for operation, value, _ in pickletools.genops(io.BytesIO(content)):
            name = operation.name
            if name in _VALUES:
                if isinstance(value, int) and abs(value) >= _LARGEST:
                    raise ValueError("it holds a number above 2^63")
                stack.append(value)
            elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
                memo[value] = stack[-1]
            elif name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET", "GET"):
                stack.append(memo[value])
            elif name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            elif name == "MARK":
                stack.append(_MARK)
            elif name == "EMPTY_LIST":
                stack.append([])
            elif name == "EMPTY_DICT":
                stack.append({})
            elif name == "LIST":
                stack.append(since_mark())
            elif name == "DICT":
                stack.append(_pairs(since_mark()))
            elif name in ("APPEND", "APPENDS"):
                items = since_mark() if name == "APPENDS" else [stack.pop()]
                _of_type(stack[-1], list).extend(items)
            elif name in ("SETITEM", "SETITEMS"):
                items = since_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
                _of_type(stack[-1], dict).update(_pairs(items))
            elif name == "STOP":
                return stack.pop()
            elif name not in ("PROTO", "FRAME"):
                raise ValueError(f"it holds more than numbers, texts, lists and dictionaries ({name})")
    except (IndexError, KeyError, TypeError, OverflowError, UnicodeError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from None
    raise ValueError("it is cut off")


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys = items[::2]
    if len(items) % 2 or not all(type(key) in (int, str) for key in keys):
        raise ValueError("a key is neither a whole number nor a text")
    return dict(zip(keys, items[1::2], strict=True))
