"""Files that grow, are cut back, replaced or not there yet."""

import os

from fedswe.results.followed_file import FollowedFile


def test_each_complete_line_is_read_once(tmp_path):
    path = tmp_path / "log"
    file = FollowedFile(path)
    assert file.new_lines() == []
    path.write_bytes(b"one\ntw")
    assert file.new_lines() == [b"one"]
    assert file.new_lines() == []
    with open(path, "ab") as log:
        log.write(b"o\nthree\n\x80\n")
    assert file.new_lines() == [b"two", b"three", b"\x80"]
    assert file.new_lines() == []


def test_a_file_that_was_cut_back_is_read_from_its_start(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthree\n")
    file = FollowedFile(path)
    file.new_lines()
    os.truncate(path, 4)
    assert file.new_lines() == [b"one"]
    with open(path, "ab") as log:
        log.write(b"TWO\nTHREE\n")
    assert file.new_lines() == [b"TWO", b"THREE"]
    os.truncate(path, 4)
    with open(path, "ab") as log:
        log.write(b"other\nlines\nthan before\n")
    assert file.new_lines() == [b"one", b"other", b"lines", b"than before"]


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    file = FollowedFile(path)
    file.new_lines()
    os.rename(path, tmp_path / "log.1")
    assert file.new_lines() == []  # nothing of it is there any more
    assert file.new_lines() == []
    path.write_bytes(b"one\ntwo\n")
    assert file.new_lines() == [b"one", b"two"]


def test_only_what_is_new_is_read(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x\n" * 500_000)
    file = FollowedFile(path)
    file.new_lines()
    with open(path, "r+b") as log:
        log.write(b"y")  # a reader that starts again would see it
        log.seek(0, os.SEEK_END)
        log.write(b"new\n")
    assert file.new_lines() == [b"new"]


def test_a_file_that_is_not_there_is_not_started_again_at_every_look(tmp_path):
    path = tmp_path / "log"
    file = FollowedFile(path)
    for _ in range(3):
        assert file.new_lines() == []
    assert file.starts == 0
    path.write_bytes(b"one\n")
    assert file.new_lines() == [b"one"]
    path.unlink()
    for _ in range(3):
        assert file.new_lines() == []
    assert file.starts == 2  # the line that was given is no longer there


def test_a_large_file_is_read_in_parts(tmp_path):
    path = tmp_path / "log"
    lines = [b"%07d" % i for i in range(700_000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    file, looks = FollowedFile(path), []
    while new := file.new_lines():
        looks.append(new)
    assert [line for new in looks for line in new] == lines
    assert max(map(len, looks)) < 400_000
    assert file.starts == 1
    with open(path, "ab") as log:
        log.write(b"new\n")
    assert file.new_lines() == [b"new"]
