"""Parts written as one word, NAME:KEY=VALUE:..., as command lines and lists in TOML files have them."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from typing import Any

from fedswe.errors import FedsweError, first_line, located, require, suggestion
from fedswe.registry import names, resolve


def split(kind: str, text: str) -> tuple[str, list[str]]:
    """A name and its parameters: ``fedswe:k=10`` or ``./mine.py:Mine:k=10``."""
    first, *rest = text.split(":")
    # The class after a module or a file is an identifier; a parameter is key=value or a number.
    if rest and rest[0].isidentifier() and first not in names(kind):
        return f"{first}:{rest[0]}", rest[1:]
    return first, rest


def short_form(kind: str, text: str, where: str) -> dict[str, Any]:
    """A part written as NAME, NAME:VALUE or NAME:KEY=VALUE:..., as a table. A value alone is for the first field."""
    name, parameters = split(kind, text)
    keys = [f.name for f in fields(resolve(kind, name)) if f.init]
    table: dict[str, Any] = {"name": name}
    for word in parameters:
        key, equals, value = word.partition("=")
        if not equals:
            require(keys and keys[0] not in table, f"{where}: {name} takes no value {word!r}: write key=value")
            key, value = keys[0], word
        require(key not in table, f"{where}: {name} names {key} twice")
        require(key in keys, f"unknown key {where}.{key} of {name}: {suggestion(key, keys)}")
        table[key] = toml_value(value)
    return table


def toml_value(text: str) -> Any:
    """A TOML value; a word without quotes is a text, also inside a list."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except RecursionError:
        raise FedsweError(f"cannot read {text[:20]}...: too many lists in lists") from None
    except ValueError:
        if text.startswith("[") and text.endswith("]"):
            return [toml_value(word.strip()) for word in text[1:-1].split(",")]
        return text


def instance(kind: str, text: str, where: str) -> Any:
    """A part from its short form."""
    require(isinstance(text, str), f"unknown {kind} {text!r}: give a name in quotes")
    table = short_form(kind, text, where)
    cls = resolve(kind, table.pop("name"))
    try:
        return cls(**table)
    except FedsweError as error:
        raise FedsweError(f"{where}: {error}") from None
    except Exception as error:  # a user's class may raise anything
        raise FedsweError(f"{where}: {text} cannot be built ({located(error) or first_line(error)})") from None
