"""Text on a terminal is wrapped at words; elsewhere its lines are left as they are."""

import io

from rich.console import Console

from fedswe.cli.console import _Console

LONG = "results   runs/002-compare/compare.csv, compare_summary.csv, compare.png, compare_final.png, runs/"
COMMAND = "-> fedswe run local.lr=0.05 algorithm.name=keel algorithm.lr=1 local.clip=5"


def test_wrapping(monkeypatch):
    for terminal in (True, False):
        monkeypatch.setattr(Console, "is_terminal", terminal)
        console = _Console(width=40)
        console.file = io.StringIO()
        for text in (LONG, COMMAND, "a\nb\n    x = y\nz"):
            console.print(text)
        *first, command, joined, formula, last = console.file.getvalue().splitlines()
        if terminal:
            assert (command, joined, formula, last) == (COMMAND, "a b", "    x = y", "z")
            assert first[0] == "results   runs/002-compare/compare.csv,"
            assert all(line.startswith(" " * 10) and len(line) <= 40 for line in first[1:])
            assert " ".join(map(str.strip, first)) == LONG
        else:
            assert [*first, command] == [LONG, COMMAND, "a"]
