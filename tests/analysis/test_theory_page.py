"""The page docs/theory.md shows what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import fedswe

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
EXAMPLES = [block.splitlines() for block in re.findall(r"```console\n\$ fedswe (.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda lines: lines[0].split()[1])
def test_examples_of_the_page(example, monkeypatch, capsys):
    """Every line shown is a line printed, in this order; lines may be left out."""
    code, out, err = fedswe(monkeypatch, capsys, *shlex.split(example[0]))
    assert (code, err) == (0, "")
    printed = iter(out.splitlines())
    for line in example[1:]:
        assert line in printed, line


def test_the_page_covers_the_commands():
    assert {lines[0].split()[1] for lines in EXAMPLES} == {"assumption", "staleness", "mixing", "rates", "bias"}
