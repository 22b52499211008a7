"""Someone who follows a page from top to bottom, in one folder and one Python session."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from fedswe.cli import main
from fedswe.experiment.configuration import load_text
from tests.docs.blocks import ROOT, Block, Command, commands
from tests.docs.output import first_difference

_FEDSWE = re.compile(r"(?:\.venv/bin/)?fedswe ")
_SHELL = re.compile(r"[|&;<>$`]")
_LONG = re.compile(r"run|compare|gym|reproduce")  # commands that take the words of `run with`
_WITH_JOBS = {"compare", "gym", "reproduce"}  # in one process: starting others takes longer than the work


class Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, words in {"fedswe": "-m fedswe ", "python": ""}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
            program.chmod(0o755)

    def follow(self, block: Block) -> None:
        """Do what the block says, and compare."""
        where = f"{block.page}:{block.line}"
        if block.file:
            (self.folder / block.file).write_text(block.text)
        elif block.language == "toml":
            load_text(block.text, where)
        elif block.language == "python":
            self._python(block, where)
        else:
            for command in commands(block):
                self._command(command, block, where)

    def _python(self, block: Block, where: str) -> None:
        with _printed() as out:
            exec(compile(block.text, where, "exec"), self.names)
        printed = iter(out.getvalue().splitlines())
        for shown in re.findall(r"^ *print\(.*\)  # (.+)$", block.text, re.MULTILINE):
            assert shown in printed, f"{where}: not printed: {shown}"

    def _command(self, command: Command, block: Block, where: str) -> None:
        code, printed = self.command(command.line, block.run_with)
        expected = 2 if any(line.startswith("error: ") for line in command.shown) else 0
        assert code == expected, f"{where}: {command.line} ends with {code}:\n" + "\n".join(printed)
        if command.shown:
            difference = first_difference(command.shown, printed)
            assert not difference, f"{where}: {command.line}\n{difference}\n\n" + "\n".join(printed)

    def command(self, line: str, extra: str = "") -> tuple[int, list[str]]:
        """Run a command line, the long ones with extra words; its exit code and what it printed."""
        line = line.replace("\\\n", " ")
        if not _FEDSWE.match(line) or _SHELL.search(line.partition(" #")[0]):
            path = f"{self.folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
            environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                ["bash", "-c", line], cwd=self.folder, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            return done.returncode, done.stdout.splitlines()
        words = shlex.split(line, comments=True)[1:]
        if _LONG.match(" ".join(words)) and "--resume" not in words:
            words += shlex.split(extra)
        if words[0] in _WITH_JOBS and "--jobs" not in words and "--on" not in words:
            words += ["--jobs", "1"]
        return _in_this_process(words)


def _in_this_process(words: list[str]) -> tuple[int, list[str]]:
    """A command without a new process, which would import everything again."""
    before = sys.argv
    sys.argv = ["fedswe", *words]
    code: Any = 0
    try:
        with _printed() as out:
            main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = before
    return code, out.getvalue().splitlines()


@contextlib.contextmanager
def _printed() -> Any:
    """What is printed to stdout and stderr, in one text; warnings are printed as they are for a user."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
        warnings.simplefilter("default")
        yield out
