"""Write experiments/FINDINGS.md and DETAILS.md from their templates: every number is computed from the stored runs.

    python -m fedswe_paper.findings            in the root of the repository

A template is Markdown in which {{ ... }} is a Python expression; `sure(...)` there stops the rendering where what the
words beside it say is no longer so. Templates are part of the repository, as trusted as its code.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from fedswe.errors import FedsweError
from fedswe.results.files import write_whole
from fedswe_paper.stored_numbers import StoredNumbers
from fedswe_paper.template_names import template_names

TEXTS = ("FINDINGS.md", "DETAILS.md")
EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_WIDTH = 120


def rendered(template: str, names: dict[str, Any]) -> str:
    """The text, its expressions replaced by their values, its paragraphs filled."""

    def value(found: re.Match[str]) -> str:
        expression = found[1].strip()
        try:
            return str(eval(f"({expression})", dict(names)))
        except Exception as error:
            error.add_note(f"in {{{{ {expression} }}}}")
            raise

    blocks = (EXPRESSION.sub(value, block).strip() for block in re.split(r"\n\n+", template))
    return "\n\n".join(_filled(block) for block in blocks if block) + "\n"


def _filled(block: str) -> str:
    """A paragraph or list in lines of at most 120 characters; heads, tables and code stay as they are."""
    if block.startswith(("#", "|", "```")):
        return block
    filled = []
    for item in re.split(r"\n(?=- )", block):
        indent = "  " if item.startswith("- ") else ""
        text = re.sub(r" ([=±]) ", "\u00a0\\1\u00a0", " ".join(item.split()))  # k = 0 and 1.2 ± 0.3 stay in one line
        lines = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        filled.append("\n".join(lines).replace("\u00a0", " "))
    return "\n".join(filled)


def write(folder: Path) -> None:
    """Both texts in the folder, from its templates and results; none where one cannot be written."""
    templates = {name: folder / "templates" / name for name in TEXTS}
    missing = [path for path in templates.values() if not path.is_file()]
    if missing:
        raise FedsweError(f"there is no file {missing[0]}: run this in the root of the repository")
    names = template_names(StoredNumbers(folder / "results"))
    texts = {name: rendered(path.read_text(), names) for name, path in templates.items()}
    for name, text in texts.items():
        write_whole(folder / name, text)


def main() -> None:
    try:
        write(Path("experiments"))
    except FedsweError as error:
        print("; ".join([f"error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
