"""The code blocks of a page, and what its comments say about them.

A comment of HTML on the line before a block is not shown to readers, and says how the block is tested:

    <!-- not run: network -->             it cannot be run here, for one of REASONS
    <!-- run with: rounds=3 --jobs 1 -->  it is run with these words added to its commands, to take less time

A Python or TOML block that begins with the comment `# name.py` or `# name.toml` is written to that file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
RUN = {"console", "python", "toml"}
SHOWN = {"text", "ini"}  # output without a command, files of other programs
REASONS = {
    "gpu": "needs a GPU",
    "root": "needs the rights of an administrator",
    "other machines": "needs several machines",
    "hours": "takes too long",
    "server": "serves until it is stopped",
    "network": "downloads something, or needs files that must be downloaded",
}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)")
_COMMENT = re.compile(r"^ *<!-- (?P<key>not run|run with): (?P<value>.*?) -->$")


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of the fence
    language: str
    lines: list[str]
    not_run: str  # a reason; empty: it is run
    run_with: str

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def file(self) -> str:
        """The file that the block is, if it says so."""
        found = re.match(r"# ([\w-]+\.(?:py|toml))$", self.lines[0]) if self.lines else None
        return found[1] if found else ""


def blocks(page: str) -> list[Block]:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found, at = [], 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if not fence:
            at += 1
            continue
        indent = fence["indent"]
        end = lines.index(f"{indent}```", at + 1)
        said = {m["key"]: m["value"] for line in lines[max(at - 2, 0) : at] if (m := _COMMENT.match(line))}
        content = [line.removeprefix(indent) for line in lines[at + 1 : end]]
        found.append(Block(page, at + 1, fence["language"], content, said.get("not run", ""), said.get("run with", "")))
        at = end + 1
    return found


@dataclass(frozen=True)
class Command:
    line: str  # with its continuation lines
    shown: list[str]  # the output on the page


def commands(block: Block) -> list[Command]:
    """The commands of a console block, each with the output that stands below it."""
    found: list[Command] = []
    open_line = False
    for line in block.lines:
        if open_line:
            found[-1] = Command(found[-1].line + "\n" + line, [])
            open_line = line.endswith("\\")
        elif line.startswith("$ "):
            found.append(Command(line.removeprefix("$ "), []))
            open_line = line.endswith("\\")
        else:
            assert found, f"{block.page}:{block.line}: output without a command"
            found[-1].shown.append(line)
    return found
