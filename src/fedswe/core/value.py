"""Values: frozen dataclasses whose fields pydantic checks when they are built, in a script as from a file."""

from __future__ import annotations

import inspect
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache, wraps
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, ParamSpec, TypeVar, get_origin, get_type_hints

import numpy as np
from pydantic import ConfigDict, Field, Strict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from fedswe.errors import FedsweError, suggestion

P = ParamSpec("P")
R = TypeVar("R")

Count = Annotated[int, Field(ge=1, lt=2**63)]
Natural = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]

_CONFIG = ConfigDict(strict=True, arbitrary_types_allowed=True)


class Value:
    """A base of dataclasses, also of users: the types are checked before `__post_init__`, which may compare numbers."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inner = cls.__post_init__

        def post_init(self: Value) -> None:
            if type(self) is cls:  # once, and not again in super().__post_init__()
                own = [(f.name, getattr(self, f.name), f.default) for f in fields(cls) if f.init]  # type: ignore[arg-type]
                given = {name: value for name, value, default in own if value is not default}
                for name, value in _checked(cls, given).items():
                    object.__setattr__(self, name, value)
            inner(self)

        cls.__post_init__ = post_init  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Compare numbers here."""


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of another type than the function says."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        try:
            bound.arguments.update(_checked(function, bound.arguments))
        except FedsweError as error:
            raise FedsweError(f"{function.__name__}: {error}") from None
        return function(*bound.args, **bound.kwargs)

    return call


@cache  # reading the types takes longer than checking the values
def types_of(owner: Any) -> dict[str, Any]:
    """The types of the fields of a dataclass, or of the arguments of a function; none if one is not defined."""
    try:
        hints = get_type_hints(owner, include_extras=True)
    except NameError:
        return {}
    return {name: hint for name, hint in hints.items() if ClassVar not in (hint, get_origin(hint)) and name != "return"}


@cache
def _adapter(owner: Any) -> TypeAdapter[dict[str, Any]]:
    def loose(hint: Any) -> Any:  # a list for a tuple, and a tuple for a list
        return Annotated[hint, Strict(False)] if get_origin(hint) in (list, tuple) else hint

    hints = {name: loose(hint) for name, hint in types_of(owner).items()}
    return TypeAdapter(with_config(_CONFIG)(TypedDict(owner.__name__, hints, total=False)))  # type: ignore[operator]


def _checked(owner: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as the types of a dataclass or function have them."""
    hints = types_of(owner)
    plain = {name: _plain(value, hints[name]) for name, value in values.items() if name in hints}
    try:
        return _adapter(owner).validate_python(plain)
    except ValidationError as error:
        if isinstance(own := error.errors()[0].get("ctx", {}).get("error"), FedsweError):  # of a validator of ours
            raise own from None
        name, message = _first(error)
        if hasattr(owner, "from_array") and isinstance(plain[name], list):
            message = f"{message}: for an array, use {owner.__name__}.from_array"
        raise FedsweError(f"{name} {message}") from None


def _plain(value: Any, hint: Any) -> Any:
    """A number of numpy, an array, a path, or 1e3 for a whole number, as pydantic takes it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if type(value) is list:
        return [_plain(item, Any) for item in value]
    if isinstance(value, PurePath) and hint is str:
        return str(value)
    if isinstance(value, float) and value.is_integer() and getattr(hint, "__origin__", hint) is int:
        return int(value)
    return value


def _first(error: ValidationError) -> tuple[str, str]:
    """The first field that is wrong, and what it must be; a union reports every alternative that it tried."""
    first, *more = error.errors()
    name = first["loc"][0]
    told = [e["msg"] if e["type"] != "sequence_str" else "a list" for e in (first, *more) if e["loc"][0] == name]
    wanted = [text.removeprefix("Input should be ") for text in told]
    text = " or ".join(dict.fromkeys(wanted))
    near = suggestion(str(first["input"]), re.findall(r"'(.+?)'", text), "")
    return str(name), f"must be {text}, not {_shown(first['input'])}{near and f': {near}'}"


def _shown(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}: write {value.__name__}()"
    return " ".join(reprlib.repr(value).split())  # short, and in one line
