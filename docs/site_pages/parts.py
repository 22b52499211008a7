"""The parts with a name beside algorithms: availability models, clocks, tasks, transforms, outputs, columns."""

from __future__ import annotations

from fedswe import registry
from fedswe.cli.list_show import description
from fedswe.registry import KINDS
from site_pages.markdown import code, page, table

TITLES = {
    "availability": "Availability models",
    "clock": "Clocks",
    "task": "Tasks",
    "transform": "Transforms",
    "output": "Evaluated models",
    "column": "Columns of the history",
}


def pages() -> dict[str, str]:
    return {f"parts/{kind}.md": _page(kind, title) for kind, title in TITLES.items()}


def _page(kind: str, title: str) -> str:
    parts = ["`fedswe show NAME` prints the same."]
    for name in KINDS[kind].builtin:
        entry = description(kind, name, registry.resolve(kind, name))
        rows = [(code(p["key"]), code(repr(p["default"])), p["meaning"]) for p in entry["parameters"]]
        parts += [f"## {name}", f"**{entry['title']}**", entry["description"]]
        if rows:
            parts.append(table(["key", "default", "meaning"], rows))
    return page(title, *parts)
