"""Values whose types are checked when they are built: in a script nothing else does, and it would fail much later."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from numbers import Integral, Real
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fedswe.errors import FedsweError

P = ParamSpec("P")
R = TypeVar("R")
_LISTS = (list, tuple, Sequence)


class Checked:
    """A base of dataclasses: types are checked before `__post_init__`, which may then compare numbers."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__post_init__" in vars(cls):
            cls.__post_init__ = _after_the_types(vars(cls)["__post_init__"])  # type: ignore[attr-defined]


def _after_the_types(post_init: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(post_init)
    def checked(self: Any) -> None:
        check_types(self)
        post_init(self)

    return checked


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of another type than the function says."""
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        hints = get_type_hints(function)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            wrong = _mismatch(value, hints.get(name, Any))
            if wrong is not None:
                found, hint = wrong
                where = f"{function.__name__}: {name}"
                raise FedsweError(f"{where} must be {_described(hint)}, not {_shown(found)}")
        return function(*args, **kwargs)

    return checked


def check_types(part: Any, section: str = "") -> None:
    """Refuse a value of another type than its field; a path becomes a text."""
    hints = types_of(type(part))
    for f in fields(part):
        if not f.init:
            continue
        if hints.get(f.name) is str and isinstance(getattr(part, f.name), PurePath):
            object.__setattr__(part, f.name, str(getattr(part, f.name)))
        wrong = _mismatch(getattr(part, f.name), hints.get(f.name, Any))
        if wrong is not None:
            value, hint = wrong
            if hasattr(type(part), "from_array") and not isinstance(value, str | int | float | bool | None):
                raise FedsweError(f"{section}{f.name} must be {_described(hint)}: for an array, use {_of_array(part)}")
            raise FedsweError(f"{section}{f.name} must be {_described(hint)}, not {_shown(value)}")


_TYPES: dict[type[Any], dict[str, Any]] = {}  # kept, as reading the types takes longer than checking the values


def types_of(cls: type[Any]) -> dict[str, Any]:
    """The types of the fields of a dataclass; empty for a class whose types are not all defined."""
    if cls not in _TYPES:
        try:
            _TYPES[cls] = get_type_hints(cls)
        except NameError:
            _TYPES[cls] = {}
    return _TYPES[cls]


def _mismatch(value: Any, hint: Any) -> tuple[Any, Any] | None:
    """The part of a value that has another type, and the type it should have."""
    origin, arguments = get_origin(hint), get_args(hint)
    if arguments and origin in _LISTS and isinstance(value, list | tuple | range | np.ndarray):
        hints = arguments if _of_fixed_length(hint) else arguments[:1] * len(value)
        if len(value) != len(hints):
            return value, hint
        pairs = zip(value, hints, strict=True)
        return next((wrong for item, own in pairs if (wrong := _mismatch(item, own))), None)
    if arguments and origin is Mapping and isinstance(value, Mapping):
        items = [*((key, arguments[0]) for key in value), *((item, arguments[1]) for item in value.values())]
        return next((wrong for item, own in items if (wrong := _mismatch(item, own))), None)
    if arguments and origin in _LISTS:
        fits = False
    elif origin in (Union, UnionType):
        fits = any(_mismatch(value, argument) is None for argument in arguments)
    elif origin is Literal:
        fits = any(_mismatch(value, type(argument)) is None and value == argument for argument in arguments)
    elif hint in (int, float):
        fits = isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    elif hint is bool:
        fits = isinstance(value, bool | np.bool_)
    else:
        cls = origin or hint
        fits = not isinstance(cls, type) or isinstance(value, cls)
    return None if fits else (value, hint)


def _of_fixed_length(hint: Any) -> bool:
    return get_origin(hint) is tuple and Ellipsis not in get_args(hint)


def _described(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_described(argument) for argument in arguments)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if arguments and _of_fixed_length(hint):
        return f"a list of {len(arguments)}: {', '.join(map(_described, arguments))}"
    if arguments and origin in _LISTS:
        return f"a list, each {_described(arguments[0])}"
    known = {int: "a whole number", float: "a number", str: "text", bool: "True or False", NoneType: "None"}
    return known.get(hint) or f"an instance of {(origin or hint).__name__}"


def _of_array(part: Any) -> str:
    return f"{type(part).__name__}.from_array"


def _shown(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}: write {value.__name__}()"
    return " ".join(reprlib.repr(value).split())  # short, and in one line
