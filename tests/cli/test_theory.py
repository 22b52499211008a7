"""fedswe theory: what concerns the command and not its numbers."""

import errno
import os
from pathlib import Path

from tests.cli.command import fedswe


def test_a_read_only_file_system_gets_one_line(tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)  # such a file system refuses this even if there is no file
    words = ["theory", "mixing", "task.clients=4", "task.alpha=1", "--horizon", "40"]
    code, _, err = fedswe(monkeypatch, capsys, *words, "--plot", tmp_path / "a.png")
    assert (code, err.count("\n")) == (2, 1)
    assert "Read-only file system" in err
