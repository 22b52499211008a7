"""Requests of an operator are files: private, checked, in order, and refused when they are damaged."""

import json
import os

import pytest

from fedswe.deploy.requests import FOLDER, Request, RequestFolder
from fedswe.errors import FedsweError


def files(folder):
    return sorted(path.name for path in (folder / FOLDER).iterdir() if path.is_file())


def test_requests_are_read_in_the_order_they_were_given(tmp_path):
    control = RequestFolder(tmp_path)
    asked = [Request("pause"), Request("evict", 3, "a reason"), Request("resume"), Request("join", 4)]
    for request in asked:
        control.submit(request)
    assert [request for _, request in control.pending()] == asked
    assert control.waiting() == asked
    assert control.joining() == 1
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700


def test_there_may_be_no_requests(tmp_path):
    assert RequestFolder(tmp_path).pending() == []
    assert RequestFolder(tmp_path).refused() == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "explode"},
        {"action": "evict"},
        {"action": "pause", "client": 1},
        {"action": "evict", "client": True},
        {"action": "evict", "client": 10**12},
        {"action": "evict", "client": -2},
        {"action": "pause", "reason": "two\nlines"},
        {"action": "pause", "reason": "\x1b[31m"},
        {"action": "pause", "reason": "x" * 201},
        {"action": "pause", "reason": 3},
        {"action": ["pause"]},
    ],
)
def test_a_request_is_checked(fields):
    with pytest.raises((FedsweError, TypeError)):
        Request(**fields)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"action": "evict", "client": 1e999}',
        b'{"action": "pause", "more": 1}',
        b'{"client": 1}',
        b'{"action": "evict", "client": 1, "reason": "' + b"x" * 5000 + b'"}',
        b"[" * 3000,
        b'{"action": {"a": 1}}',
    ],
)
def test_a_damaged_request_is_set_aside(tmp_path, caplog, content):
    control = RequestFolder(tmp_path)
    control.submit(Request("pause"))
    (tmp_path / FOLDER / "0.json").write_bytes(content)
    assert [request for _, request in control.pending()] == [Request("pause")]
    assert control.refused() == 1
    assert "is not applied" in caplog.text
    assert len(files(tmp_path)) == 1
    assert (tmp_path / FOLDER / "refused" / "0.json").read_bytes() == content


def test_links_pipes_and_folders_are_no_requests(tmp_path):
    control = RequestFolder(tmp_path)
    control.submit(Request("pause"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps({"action": "stop"}))
    (tmp_path / FOLDER / "1.json").symlink_to(elsewhere)
    os.mkfifo(tmp_path / FOLDER / "2.json")
    (tmp_path / FOLDER / "3.json").mkdir()
    assert [request for _, request in control.pending()] == [Request("pause")]
    assert control.refused() == 2  # the folder is left alone
    assert elsewhere.exists()


def test_a_folder_that_others_can_write_is_not_read(tmp_path):
    control = RequestFolder(tmp_path)
    control.submit(Request("pause"))
    (tmp_path / FOLDER).chmod(0o777)
    with pytest.raises(FedsweError, match="can be written by others"):
        control.pending()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_request_of_another_user_is_set_aside(tmp_path):
    control = RequestFolder(tmp_path)
    control.submit(Request("pause"))
    (name,) = files(tmp_path)
    os.chown(tmp_path / FOLDER / name, 12345, 12345)
    assert control.pending() == []
    assert control.refused() == 1
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(FedsweError, match="belongs to another user"):
        control.submit(Request("pause"))


def test_folders_in_the_folder_are_left_alone(scratch):
    folder = scratch / "control"
    (folder / "a.json" / "x").mkdir(parents=True)
    folder.chmod(0o700)
    requests = RequestFolder(scratch)
    for _ in range(3):
        assert requests.pending() == requests.waiting() == []
    assert requests.refused() == 0
