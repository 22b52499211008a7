"""fedswe theory: what concerns the command and not its numbers."""

import errno
import os
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["a.jpg", "none/a.png"])
def test_a_plot_that_cannot_be_written_is_refused_before_the_work(name, tmp_path, monkeypatch, capsys):
    code, out, err = fedswe(monkeypatch, capsys, "theory", "rates", "no-such-availability", "--plot", tmp_path / name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert name.rpartition("/")[2] in err
