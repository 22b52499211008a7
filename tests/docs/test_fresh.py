"""README and tutorial on a machine that has nothing: from a clean clone, in an empty environment, with real commands.

`make test-fresh`; it downloads the dependencies and takes many minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks, commands
from tests.docs.output import first_difference

pytestmark = pytest.mark.fresh
MAKE_TEST = "make test "  # the suite itself: `.ci/run` does that


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh") / "fedswe"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def environment(home: Path) -> dict[str, str]:
    """What a new user has: a home without settings, and the programs of the system with this Python first."""
    python = home / "bin" / "python3"
    if not python.exists():
        python.parent.mkdir(parents=True)
        python.symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "HTTP", "http"))}
    mirrors = Path.home() / ".config" / "pip" / "pip.conf"  # where packages come from is a matter of the machine
    if mirrors.is_file():
        kept["PIP_CONFIG_FILE"] = str(mirrors)
    return kept | {"HOME": str(home), "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def follow(block: Block, folder: Path) -> None:
    if block.file:
        (folder / block.file).write_text(block.text)
        return
    if block.language == "python":
        lines = ["import sys", f"exec(compile(sys.stdin.read(), {block.page!r}, 'exec'))"]
        run([str(folder / ".venv/bin/python"), "-c", "; ".join(lines)], folder, block, block.text)
        return
    for command in commands(block):
        if command.line.startswith(MAKE_TEST):
            continue
        printed = run(["bash", "-c", command.line], folder, block)
        if command.shown:
            difference = first_difference(command.shown, printed)
            assert not difference, f"{block.page}:{block.line}: {command.line}\n{difference}\n\n" + "\n".join(printed)


def run(words: list[str], folder: Path, block: Block, given: str | None = None) -> list[str]:
    done = subprocess.run(
        words, cwd=folder, env=environment(folder.parent / "home"), text=True, input=given,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{block.page}:{block.line}: {words}\n{done.stdout}"
    return done.stdout.splitlines()


def test_readme_and_tutorial_from_a_clean_clone(clone):
    """Downloads are allowed here; what needs a GPU is left out."""
    done = []
    for page in ("README.md", "docs/tutorial.md"):
        shutil.rmtree(clone / "runs", ignore_errors=True)
        for block in blocks(page):
            if block.language in ("console", "python") and block.not_run in ("", "network"):
                follow(block, clone)
                done.append(block)
            elif page == "README.md" and block.language == "text":
                the_table_is_the_one_that_was_measured(clone, block)
    assert len(done) > 10


def the_table_is_the_one_that_was_measured(clone: Path, block: Block) -> None:
    """The table of `make run` in the README: algorithms and rates are the same, accuracies to half a point."""
    import csv

    summary = clone / "runs" / "001-compare" / "compare_summary.csv"
    shown = {}
    for line in block.lines:
        if line.startswith("│"):
            name, server, *_ = (cell.strip() for cell in line.strip("│").split("│"))
            shown[name] = float(server.strip("* ").split()[0])
    with summary.open(newline="") as text:
        rows = {row["algorithm"]: row for row in csv.DictReader(text) if row["model"] == "server"}
    assert set(rows) == set(shown)
    for name, accuracy in shown.items():
        assert 100 * float(rows[name]["test_accuracy_mean"]) == pytest.approx(accuracy, abs=0.5), name
