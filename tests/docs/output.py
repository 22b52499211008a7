"""Whether a command printed what the page shows."""

from __future__ import annotations

import re

# What differs from one run to the next, or between machines.
MASKED = [
    (re.compile(r"\b\d+(\.\d+)? (s|seconds|minutes|ms)\b"), "TIME"),
    (re.compile(r"(/tmp|/home|/root)/[^\s,:]+"), "PATH"),
    (re.compile(r"\bfedswe \d+\.\d+\.\d+\b"), "VERSION"),
    (re.compile(r"http://127\.0\.0\.1:\d+/?"), "ADDRESS"),  # another port where the usual one is taken
    (re.compile(r"\bruns/\d{3}-"), "runs/NUMBER-"),  # a reader may have run something before
]
# How many lines of progress there are depends on the time.
_PROGRESS = re.compile(r"(rounds \d+/\d+|(tuning, )?run \d+ of \d+)( .*|$)")
_BORDER = re.compile(r"[┏┓┗┛┡┩├┤└┘┌┐╭╮╰╯━─╇┯┷┳┻┴┬┼ ]+")


def first_difference(shown: list[str], printed: list[str]) -> str:
    """Empty if the lines agree.

    A line `...` on the page stands for any lines; one that ends in ` ...` for any rest of the line. Borders of tables,
    empty lines and progress may be left out.
    """
    want, have = _lines(shown), _lines(printed)
    at, anywhere = 0, False
    for line in want:
        if line == "...":
            anywhere = True
            continue
        found = next((n for n in range(at, len(have)) if _same(line, have[n])), None)
        if found is None or (found > at and not anywhere):
            got = have[at] if at < len(have) else "nothing more"
            return f"the page shows\n  {line}\nand the command prints\n  {got}"
        at, anywhere = found + 1, False
    if at < len(have) and not anywhere:
        return f"the page does not show\n  {have[at]}"
    return ""


def _lines(lines: list[str]) -> list[str]:
    whole = [line.rstrip() for line in lines if not (_BORDER.fullmatch(line + " ") or _PROGRESS.match(line))]
    for pattern, word in MASKED:
        whole = [pattern.sub(word, line) for line in whole]
    return whole


def _same(shown: str, printed: str) -> bool:
    return printed.startswith(shown.removesuffix("...")) if shown.endswith(" ...") else shown == printed
