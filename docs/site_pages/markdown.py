"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(str(cell)) for cell in line) + " |" for line in lines)


def code(text: object) -> str:
    """Text as code; empty text stays empty."""
    return f"`{text}`" if str(text) else ""


def toctree(names: Iterable[str], depth: int = 1) -> str:
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *names, "```"])


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *(part for part in parts if part)]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
