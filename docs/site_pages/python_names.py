"""The reference of the Python names, from their signatures and docstrings (which are Markdown to a reader)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from fedswe import theory
from fedswe.cli.list_show import description
from site_pages.markdown import code, page, table, toctree

# Page, its title, and (module, names) of what is on it; no names: all public ones.
PAGES: dict[str, tuple[str, list[tuple[str, list[str]]]]] = {
    "runs": (
        "Runs, results, comparisons, figures",
        [
            ("fedswe", ["Experiment", "Local", "Evaluate", "Record", "run", "resume", "load", "Result"]),
            ("fedswe.results.history", ["History"]),
            ("fedswe", ["compare", "Comparison", "plot", "FedsweError"]),
            ("fedswe.experiment.configuration", ["load", "load_text"]),
        ],
    ),
    "tasks": ("Tasks", [("fedswe.tasks", ["from_data", "Task"])]),
    "parts": (
        "Base classes of your own parts",
        [
            ("fedswe.core.algorithm", []),
            ("fedswe.core.records", ["Model", "Nothing"]),
            ("fedswe.availability", ["Availability"]),
            ("fedswe.clock", ["Clock"]),
            ("fedswe.core.transforms", ["Transform"]),
            ("fedswe.engine.outputs", ["Output"]),
            ("fedswe.engine.columns", ["Column"]),
            ("fedswe.core.footprint", ["footprint", "Footprint", "in_d"]),
        ],
    ),
    "flower": ("Flower", [("fedswe.flower", [])]),
    "theory": ("Theory", [(f"fedswe.theory.{module.name}", []) for module in iter_modules(theory.__path__)]),
}  # fmt: skip


def pages() -> dict[str, str]:
    made = {f"python/{name}.md": _page(*content) for name, content in PAGES.items()}
    intro = "Signatures and docstrings of the public names, by what they are for."
    made["python/index.md"] = page("Python", intro, toctree(PAGES))
    return made


def _page(title: str, content: list[tuple[str, list[str]]]) -> str:
    parts, seen = [], set()
    for module, chosen in content:
        place = import_module(module)
        if module not in seen:
            seen.add(module)
            parts.append(f"## {module}")
            if not chosen:
                parts.append(_text(place))
        for name in chosen or _public(place):
            parts.extend(_entry(module, name, getattr(place, name)))
    return page(title, *parts)


def _public(place: Any) -> list[str]:
    named = getattr(place, "__all__", None)
    own = (
        name
        for name, value in vars(place).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == place.__name__ and callable(value)
    )
    return list(named or own)


def _entry(module: str, name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield _directive(":::", "function", f"{module}.{name}{_signature(value)}", _text(value))
        return
    members = [
        _directive(":::", *_member(attribute, member), _text(member))
        for attribute, member in vars(value).items()
        if not attribute.startswith("_") and (callable(member) or _is_property(member)) and not inspect.isclass(member)
    ]
    text = "\n\n".join([_text(value), _fields(value), *members])
    yield _directive("::::", "class", f"{module}.{name}{_signature(value)}", text)


def _fields(cls: type[Any]) -> str:
    """What the comments beside the fields of a dataclass say."""
    entries = description("", cls.__name__, cls)["parameters"] if is_dataclass(cls) else []
    rows = [(code(entry["key"]), entry["meaning"]) for entry in entries if entry["meaning"]]
    return table(["field", "meaning"], rows) if rows else ""


def _member(name: str, member: Any) -> tuple[str, str]:
    if _is_property(member):
        return "property", name
    if isinstance(member, classmethod | staticmethod):
        kind = "classmethod" if isinstance(member, classmethod) else "staticmethod"
        bound = member.__func__
        return kind, name + _signature(bound, skip_first=kind == "classmethod")
    return "method", name + _signature(member, skip_first=True)


def _is_property(member: Any) -> bool:
    return isinstance(member, property) or type(member).__name__ == "cached_property"


def _directive(fence: str, kind: str, title: str, text: str) -> str:
    return f"{fence}{{py:{kind}}} {title}\n\n{text}\n{fence}"


def _signature(value: Any, skip_first: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    parameters = [
        p.replace(annotation=_plain(p.annotation))
        for p in list(signature.parameters.values())[int(skip_first) :]
        if not p.name.startswith("_")
    ]
    returned = signature.return_annotation
    if inspect.isclass(value) or returned in (None, "None"):
        returned = inspect.Signature.empty
    text = str(signature.replace(parameters=parameters, return_annotation=_plain(returned)))
    return re.sub(r"<[^<>]*>", "...", text)  # an object that has no name in source code


class _Plain(str):
    """An annotation, which `from __future__ import annotations` keeps as text, without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _plain(annotation: Any) -> Any:
    return _Plain(annotation) if isinstance(annotation, str) else annotation


def _text(value: Any) -> str:
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value) and text.startswith(f"{value.__name__}("):
        return ""  # what dataclass writes where there is no docstring
    return text.replace("::\n", ":\n")
