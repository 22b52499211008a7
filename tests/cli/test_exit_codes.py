"""docs/running.md#exit-codes against the commands."""

import ast
import re
import shlex
import signal
from pathlib import Path

import pytest

from fedswe.cli import doctor
from tests.cli.command import fedswe

ROOT = Path(__file__).parents[2]
CODES = re.search(r"\| code \| meaning \|\n\|---\|---\|\n((?:\|.*\n?)+)", (ROOT / "docs" / "running.md").read_text())[1]
DOCUMENTED = {int(code) for row in CODES.splitlines() for code in row.split("|")[1].split(",")}
EXAMPLES = [
    (0, "fedswe list"),
    (1, "fedswe doctor"),
    (2, "fedswe run runds=5"),
    (2, "fedswe run examples/none.toml"),
    (2, "fedswe export nowhere"),
]


@pytest.mark.parametrize(("code", "example"), EXAMPLES)
def test_examples(code, example, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    if example == "fedswe doctor":  # on a machine where something is broken
        monkeypatch.setattr(doctor, "_checks", lambda: [("broken", "disk", "full", "make room")])
    assert fedswe(monkeypatch, capsys, *shlex.split(example)[1:])[0] == code


def test_every_code_in_the_source_is_documented():
    """Numbers in sys.exit(...) and typer.Exit(...) of the command line."""
    found = {0, 128 + signal.SIGINT}
    for file in [*(ROOT / "src" / "fedswe" / "cli").glob("*.py"), ROOT / "src" / "fedswe_paper" / "command.py"]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "typer.Exit") and node.args:
                if isinstance(node.args[0], ast.Constant):
                    found.add(node.args[0].value)
                elif ast.unparse(node.args[0]) == "128 + signal.SIGTERM":
                    found.add(128 + signal.SIGTERM)
    assert found == DOCUMENTED


def test_a_fault_of_this_package_has_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_checks", dict.popitem)  # raises in a file of the package
    monkeypatch.setattr("fedswe.failures.own_names", list)  # other tests of this process have used classes of their own
    with pytest.raises(TypeError):  # which Python prints, and ends with code 1
        fedswe(monkeypatch, capsys, "doctor")
