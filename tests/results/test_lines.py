"""Files of lines: what a failure leaves."""

import pytest

from fedswe.errors import FedsweError
from fedswe.results.lines import Lines


def test_a_file_that_cannot_be_truncated_is_closed(tmp_path):
    # A device takes what is written to it, but it cannot be truncated.
    (tmp_path / "history.csv").symlink_to("/dev/null")
    opened = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.open", lambda *a, _open=open, **k: opened.append(_open(*a, **k)) or opened[-1])
        with pytest.raises(FedsweError, match=r"^cannot write .*history\.csv: Invalid argument"):
            Lines(tmp_path / "history.csv", 0)
    assert [file.closed for file in opened] == [True]


def test_lines_after_those_that_are_kept(tmp_path):
    file = tmp_path / "history.csv"
    file.write_text("one\ntwo\n")
    lines = Lines(file, 4)
    lines.append("three\n")
    lines.close()
    assert file.read_text() == "one\nthree\n"
    with pytest.raises(FedsweError, match="is shorter than its checkpoint"):
        Lines(file, 100)
