"""Files that are whole or not there, and files of lines."""

from pathlib import Path

import pytest

from fedswe.errors import FedsweError
from fedswe.results.files import Lines, write_whole


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path):
    file = tmp_path / "a.txt"
    write_whole(file, "one")
    write_whole(file, b"two")
    assert file.read_text() == "two"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("path", "message"),
    [(".", "it is a folder, name a file"), ("file/below", "Not a directory"), ("nowhere/x", "No such file")],
)
def test_what_cannot_be_written_gets_one_line(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(FedsweError, match=f"cannot write {path}: .*{message}"):
        write_whole(Path(path), "lost")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


def test_lines_after_those_that_are_kept(tmp_path):
    file = tmp_path / "history.csv"
    file.write_text("one\ntwo\n")
    lines = Lines(file, 4)
    lines.append("three\n")
    lines.close()
    assert file.read_text() == "one\nthree\n"
    with pytest.raises(FedsweError, match="is shorter than its checkpoint"):
        Lines(file, 100)
