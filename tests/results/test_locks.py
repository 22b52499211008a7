"""Locks: one process at a time, also where the file system has none, and never longer than the process lives."""

import errno
import fcntl
import os
import signal
import threading

import pytest

from fedswe import run
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import load
from fedswe.results import locks
from fedswe.results.locks import Claim, is_claimed
from fedswe.results.run_directory import RunDirectory

SHORT = ["task.name=quadratic", "availability.p=0.5", "rounds=4"]


@pytest.fixture(params=["locks", "no locks"])
def file_system(request, monkeypatch):
    monkeypatch.setenv("FEDSWE_NO_LOCKS", "")  # restored at the end
    monkeypatch.delenv("FEDSWE_NO_LOCKS")
    if request.param == "no locks":
        monkeypatch.setattr(fcntl, "flock", without_locks)
    return request.param


def without_locks(*_):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def claimed_by_child(path):
    """A process that holds the claim until it is killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"y" if Claim(path).granted else b"n")
        signal.pause()
    assert os.read(read, 1) == b"y"
    os.close(read)
    os.close(write)
    return child


def test_a_claim_excludes_other_processes_until_it_ends(tmp_path, file_system):
    path = tmp_path / "a.lock"
    child = claimed_by_child(path)
    try:
        other = Claim(path)
        assert not other.granted
        other.release()
        free = Claim(tmp_path / "b.lock")
        assert free.granted
        free.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for _ in range(2):
        claim = Claim(path)
        assert claim.granted
        claim.release()
    assert {p.name for p in tmp_path.iterdir()} == {"a.lock", "b.lock"}


def test_a_process_does_not_claim_twice(tmp_path, file_system):
    first, second = Claim(tmp_path / "a.lock"), Claim(tmp_path / "a.lock")
    assert (first.granted, second.granted) == (True, False)
    second.release()
    first.release()


def test_a_process_of_another_machine_counts_as_living(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", without_locks)
    monkeypatch.setenv("FEDSWE_NO_LOCKS", "1")
    (tmp_path / "a.lock.elsewhere.1.1").touch()
    claim = Claim(tmp_path / "a.lock")
    assert not claim.granted
    claim.release()


def test_processes_that_claim_at_the_same_time_never_both_get_it(tmp_path, monkeypatch):
    """Without locks: another process creates its file between the two steps of this one."""
    monkeypatch.setattr(fcntl, "flock", without_locks)
    monkeypatch.setenv("FEDSWE_NO_LOCKS", "1")
    children = []
    create = os.open

    def create_and_let_the_other_in(path, *words):
        handle = create(path, *words)
        if ".lock." in str(path) and not children:
            children.append(0)  # the other process must not start a third
            read, write = os.pipe()
            children[0] = os.fork()
            if children[0] == 0:
                os.write(write, b"y" if Claim(tmp_path / "a.lock").granted else b"n")
                signal.pause()
            children.append(os.read(read, 1))
        return handle

    monkeypatch.setattr(locks.os, "open", create_and_let_the_other_in)
    claim = Claim(tmp_path / "a.lock")
    os.kill(children[0], signal.SIGKILL)
    os.waitpid(children[0], 0)
    assert (claim.granted, children[1]) != (True, b"y")
    claim.release()


def test_a_run_is_refused_while_it_runs_and_finished_without_locks(tmp_path, file_system, capsys):
    tried = []

    def watch(t, _):
        if t == 2:
            with (
                pytest.raises(FedsweError, match="is in use by another process"),
                RunDirectory(tmp_path / "run").held(),
            ):
                pass
            tried.append(t)

    assert run(load(None, SHORT), tmp_path / "run", watch).history.last["round"] == 4
    assert tried == [2]
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == (file_system == "no locks")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "config.toml", "history.csv", "model.safetensors", "reported.txt", "run.json",
    ]  # fmt: skip


def test_looking_at_a_claim(tmp_path, file_system):
    path = tmp_path / "a.lock"
    assert is_claimed(path) is False
    child = claimed_by_child(path)
    try:
        assert is_claimed(path) is True
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert is_claimed(path) is False
    assert [file.name for file in tmp_path.iterdir()] == ["a.lock"]


def test_those_who_look_do_not_see_each_other(tmp_path):
    path = tmp_path / "a.lock"
    path.touch()
    with path.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)  # another one, in the middle of its look
        assert is_claimed(path) is False


def test_a_claim_waits_for_those_who_look(tmp_path, monkeypatch):
    path = tmp_path / "a.lock"
    with path.open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        end = threading.Timer(0.1, lambda: fcntl.flock(looking, fcntl.LOCK_UN))
        end.start()
        claim = Claim(path)
        end.join()
        assert claim.granted
        claim.release()
        monkeypatch.setattr(locks, "_PATIENCE", 0.1)
        fcntl.flock(looking, fcntl.LOCK_SH)  # and was stopped in the middle of its look
        claim = Claim(path)
        assert not claim.granted
        claim.release()


def test_a_pipe_does_not_block_who_looks(tmp_path):
    os.mkfifo(tmp_path / "a.lock")
    assert is_claimed(tmp_path / "a.lock") is False
