"""Locks: one process at a time, and never longer than the process lives; without locks one warning."""

import errno
import fcntl
import os
import signal
import threading

from filelock import FileLock

from fedswe import run
from fedswe.experiment.configuration import load
from fedswe.results.files import Claim, is_claimed

SHORT = ["task.name=quadratic", "availability.p=0.5", "rounds=4"]


def without_locks(*_):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def claimed_by_child(path):
    """A process that holds the claim until it is killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        claim = Claim(path)
        os.write(write, b"y" if claim.granted else b"n")
        signal.pause()
    assert os.read(read, 1) == b"y"
    os.close(read)
    os.close(write)
    return child


def test_a_claim_excludes_other_processes_until_it_ends(tmp_path):
    path = tmp_path / "a.lock"
    assert is_claimed(path) is False
    assert not path.exists()
    child = claimed_by_child(path)
    try:
        assert is_claimed(path) is True
        other = Claim(path)
        assert not other.granted
        other.release()
        free = Claim(tmp_path / "b.lock")
        assert free.granted
        free.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert is_claimed(path) is False
    for _ in range(2):
        claim, second = Claim(path), Claim(path)
        assert (claim.granted, second.granted) == (True, False)
        claim.release()
    assert {p.name for p in tmp_path.iterdir()} == {"a.lock", "b.lock"}


def test_without_locks_a_run_goes_on_after_one_warning(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDSWE_NO_LOCKS", "")  # restored at the end
    monkeypatch.delenv("FEDSWE_NO_LOCKS")
    monkeypatch.setattr(fcntl, "flock", without_locks)
    assert run(load(None, SHORT), tmp_path / "run").history.last["round"] == 4
    assert not is_claimed(tmp_path / "run" / ".lock")
    (warning,) = capsys.readouterr().err.splitlines()
    assert ".lock has no locks" in warning
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        ".lock", "config.toml", "history.csv", "model.safetensors", "reported.txt", "run.json",
    ]  # fmt: skip


def test_a_claim_waits_for_those_who_look(tmp_path):
    looking = FileLock(tmp_path / "a.lock", thread_local=False)
    looking.acquire()
    end = threading.Timer(0.03, looking.release)
    end.start()
    claim = Claim(tmp_path / "a.lock")
    end.join()
    assert claim.granted
    claim.release()
