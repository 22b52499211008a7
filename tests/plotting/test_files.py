"""Figures are written whole or not at all, and the same figure gives the same bytes."""

import os

import pytest
from matplotlib.figure import Figure

from fedswe.errors import FedsweError
from fedswe.plotting import Panel, Series, curves, save


def test_files_are_whole_and_the_same_every_time(tmp_path):
    chart = curves([Panel("(a)", [Series("fedswe", [0, 1], [[1.0, 2.0], [2.0, 4.0]])], "accuracy, %")])
    paths = chart.save(tmp_path, "fig7")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig7.csv", "fig7.png", "fig7.svg"]
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in chart.save(tmp_path, "fig7")] == before


def test_a_pdf_is_the_same_every_time_and_has_fonts_that_publishers_accept(tmp_path):
    for name in ("a.pdf", "b.pdf"):
        save(lambda figure: figure.subplots().set_title("title"), (2, 2), tmp_path / name)
    content = (tmp_path / "a.pdf").read_bytes()
    assert content == (tmp_path / "b.pdf").read_bytes()
    assert b"/Type3" not in content


def test_a_read_only_folder_is_one_line(tmp_path, monkeypatch):
    def read_only(*args, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.write_bytes", read_only)
    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    with pytest.raises(FedsweError, match=r"cannot write .*a\.png: Read-only file system"):
        save(Figure.subplots, (2, 2), tmp_path / "a.png")


@pytest.mark.parametrize("end", ["png", "svg", "pdf"])
def test_a_full_disk_is_one_line_and_leaves_the_old_file(end, tmp_path):
    path = tmp_path / f"a.{end}"
    path.write_text("before")
    os.symlink("/dev/full", tmp_path / f".a.{end}.part")  # where the figure is written before it is renamed
    with pytest.raises(FedsweError, match=r"cannot write .*: No space left on device; free space"):
        save(Figure.subplots, (2, 2), path)
    assert path.read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


@pytest.mark.parametrize(("name", "reason"), [("a.jpg", "must end in"), ("no/a.png", "no folder"), ("d.png", "folder")])
def test_a_file_that_cannot_be_written_is_refused(name, reason, tmp_path):
    (tmp_path / "d.png").mkdir()
    with pytest.raises(FedsweError, match=reason):
        save(Figure.subplots, (2, 2), tmp_path / name)
