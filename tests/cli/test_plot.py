"""fedswe plot: files, errors of one line, and the figures of a real comparison."""

import pytest

from tests.cli.command import fedswe
from tests.figures.runs import write_run


@pytest.mark.parametrize("end", ["png", "svg", "pdf"])
def test_plot_writes_a_file(end, tmp_path, monkeypatch, capsys):
    run = write_run(tmp_path / "a")
    code, out, _ = fedswe(monkeypatch, capsys, "plot", run, "--size", "single", "--out", tmp_path / f"b.{end}")
    assert (code, out) == (0, f"figure    {tmp_path}/b.{end}\n")
    assert (tmp_path / f"b.{end}").read_bytes()[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
