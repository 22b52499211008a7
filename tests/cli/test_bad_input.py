"""Bad input: one line `error: ...` that names the key, exit code 2, every file as it was, and no hang."""

import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.command import fedswe, process
from tests.figures.runs import write_run

SECONDS = 60  # a command that has not ended by then hangs

PLUGINS = """
from dataclasses import dataclass, field
from fedswe.algorithms import FedAvg
from fedswe.availability import Always
from fedswe.engine.columns import Column



@dataclass(frozen=True)
class Raises(FedAvg):
    def plan(self, *_):
        return 1 / 0

@dataclass(frozen=True)
class Merges(FedAvg):
    def merge(self, *_):
        raise ValueError("several\\nlines")

@dataclass(frozen=True)
class Memory(FedAvg):
    def plan(self, *_):
        raise MemoryError

@dataclass(frozen=True)
class Needs(FedAvg):
    share: float = field(kw_only=True)

class Plain:
    pass

class NotFrozen(FedAvg):
    k: float = 1.0

@dataclass(frozen=True)
class Shrinks(Always):
    def schedule(self, who, seed):
        return None

@dataclass(frozen=True)
class Words(Column):
    def values(self, engine):
        return {"round": 1.0}

def positional(a=1, /):
    return None

def leaves():
    raise SystemExit(3)
"""

FILES = {
    "good.toml": "rounds = 2\n",
    "broken.toml": "rounds = = 3\n",
    "binary.toml": b"\x89PNG\r\n\x1a\n\x00\xff\xfe",
    "bom.toml": b"\xef\xbb\xbfrounds = 0\n",
    "array.toml": "[[algorithm]]\nname = 'fedavg'\n",
    "huge.toml": f"[task]\nclients = {10**400}\n",
    "chain.toml": "[local]\nchain = [{ norm = 5.0 }]\n",
    "lists.toml": f"rounds = {'[' * 3000}\n",
    "ragged.csv": "1,2\n3\n",
    "log.csv": "client,start,end\n1,0,10\n2,5,60\n",
    "long.csv": "client,start,end\n1,0,1e11\n",
    "zeros.csv": "0,0,0\n0,0,0\n",
    "turned.csv": "country,1,2,3\nItaly,1,0,1\nSpain,0,1,1\n",
    "mine.py": PLUGINS,
    "notes.txt": "mine\n",
    "folder/file": "",
    "torn/config.toml": "rounds = 3\n[task]\nclients = 10\nalpha = 1.0\n",
    "torn/checkpoint.safetensors": "torn",
    "torn/.lock": "",
    **{
        f"masks/{name}.csv": text
        for name, text in (
            ("wide", "1,0,1\n" * 4),
            ("short", "1,0\n" * 3),
            ("nobody", "0,0\n" * 4),
            ("values", "1,2\n" * 4),
            ("words", "1,yes\n" * 4),
            ("two", "1,0\n" * 4),
            ("low", "0.5,1.5\n"),
            ("zero", "0,1\n"),
        )
    },
}

CASES = [  # a command, and a part of what it says
    tuple(line.split(" => "))
    for line in Path(__file__).with_name("bad_input.txt").read_text().splitlines()
    if not line.startswith("#")
]
LONG = {"{digits}": "9" * 5000, "{brackets}": "[" * 2000}
QUICK = ["task.clients=10", "task.alpha=1", "rounds=3"]


def words_of(command):
    for name, text in LONG.items():
        command = command.replace(name, text)
    first, *rest = shlex.split(command)
    if first == "quick":
        return ["run", *QUICK, *rest]
    if first == "mask":
        base = ["task.name=quadratic", "rounds=4", "availability.name=mask"]
        return ["run", *base, *(f"availability.{word}" for word in rest)]
    jobs = [] if "--jobs" in rest or first != "compare" else ["--jobs", "1"]
    return [first, *rest, *(QUICK if first == "compare" else []), *jobs]


def listing(folder):
    left = [p for p in folder.rglob("*") if "__pycache__" not in p.parts and p.name != ".lock"]
    return {p: p.read_bytes() if p.is_file() else None for p in left}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    place = tmp_path_factory.mktemp("bad")
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    write_run(place / "done")
    (write_run(place / "damaged") / "config.toml").write_text("[")
    return place


@pytest.fixture
def folder(content, monkeypatch):
    """The folder with bad files as the current one; what hangs fails, by an exception that no command catches."""
    monkeypatch.chdir(content)
    monkeypatch.setattr(sys, "path", [*sys.path])  # plug-ins add their folder
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(SECONDS)
    yield content
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def assert_refused(result, message):
    code, _, err = result
    assert (code, err.count("\n"), err[:7]) == (2, 1, "error: "), err
    assert message in err


@pytest.mark.parametrize(("command", "message"), CASES, ids=[command for command, _ in CASES])
def test_one_line_and_nothing_written(command, message, folder, monkeypatch, capsys):
    before = listing(folder)
    assert_refused(fedswe(monkeypatch, capsys, *words_of(command)), message)
    assert listing(folder) == before


@pytest.mark.parametrize("command", ["run binary.toml", "quick --rounds 3", "quick algorithm.name=./mine.py:Raises"])
def test_the_same_in_a_process(command, content):
    before = listing(content)
    done = process(*words_of(command), cwd=content, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _, err = done.communicate(timeout=10 * SECONDS)
    assert_refused((done.returncode, "", err), "")
    assert listing(content) == before


@pytest.mark.usefixtures("folder")
def test_an_error_in_a_worker_process_names_the_place_too(tmp_path, monkeypatch, capsys):
    words = ["compare", *QUICK, "--algorithms", "./mine.py:Merges", "--seeds", "1,2", "--jobs", "2"]
    code, _, err = fedswe(monkeypatch, capsys, *words, "--out", tmp_path / "out")
    assert code == 2
    assert_refused((code, "", err), "./mine.py:17: ValueError: several (in merge of Merges)")


@pytest.mark.usefixtures("folder")
def test_the_whole_traceback_on_request(monkeypatch, capsys):
    monkeypatch.setenv("FEDSWE_TRACEBACK", "1")
    code, _, err = fedswe(monkeypatch, capsys, "run", *QUICK, "algorithm.name=./mine.py:Raises")
    assert code == 2
    assert err.startswith("Traceback")
    assert err.splitlines()[-1] == "error: ./mine.py:12: ZeroDivisionError: division by zero (in plan of Raises)"


def test_clients_of_every_seed_are_looked_at_before_the_first_run(tmp_path, monkeypatch, capsys):
    """Seed 3 parts the digits among 600 clients, seed 1 leaves one of them without any."""
    words = ["compare", "task.clients=600", "rounds=1", "--algorithms", "fedavg", "--jobs", "1"]
    for more in (["--seeds", "3,1"], ["--seeds", "3", "--tune", "0.1,1"]):
        assert_refused(fedswe(monkeypatch, capsys, *words, *more, "--out", tmp_path / "out"), "has no data")
        assert not (tmp_path / "out").exists()


# data -------------------------------------------------------------------------------------------------------
def arrays(**changes):
    rng = np.random.default_rng(0)
    good = {
        "x_train": rng.random((40, 4, 4)), "y_train": np.arange(40) % 3,
        "x_test": rng.random((9, 4, 4)), "y_test": np.arange(9) % 3,
    }  # fmt: skip
    return {k: v for k, v in {**good, **changes}.items() if v is not None}


def run_npz(tmp_path, monkeypatch, capsys, content):
    (tmp_path / "data.npz").write_bytes(content)
    words = ["task.name=npz", f"task.file={tmp_path}/data.npz", "task.clients=3", "task.alpha=5", "rounds=2"]
    return fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "out")


def npz(tmp_path, **changes):
    np.savez(tmp_path / "made.npz", **arrays(**changes))
    return (tmp_path / "made.npz").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.full((40, 4, 4), np.nan)}, "x_train and y_train: the inputs hold NaN or infinity (sample 0)"),
        ({"y_test": None}, "has no array y_test"),
        ({"y_train": np.arange(39) % 3}, "x_train and y_train has 40 inputs for 39 targets"),
        ({"y_train": np.full(40, 0.5), "y_test": np.full(9, 0.5)}, "integers from 0"),
        ({"x_test": np.ones((9, 5, 5))}, "x_test and y_test: inputs of shape [5, 5]"),
        ({"x_train": np.array(["a"] * 40).reshape(40, 1)}, "must be numbers"),
        ({"x_train": np.array([object()] * 40, dtype=object)}, "cannot be read as .npz"),
    ],
)
def test_npz(changes, message, tmp_path, monkeypatch, capsys):
    assert_refused(run_npz(tmp_path, monkeypatch, capsys, npz(tmp_path, **changes)), message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("keep", [0, 100, 1000])
def test_truncated_npz(keep, tmp_path, monkeypatch, capsys):
    assert_refused(run_npz(tmp_path, monkeypatch, capsys, npz(tmp_path)[:keep]), "cannot be read as .npz")


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 3), (3, 4, 4), (7,)])
def test_good_npz_runs(shape, tmp_path, monkeypatch, capsys):
    good = npz(tmp_path, x_train=np.random.rand(40, *shape), x_test=np.random.rand(9, *shape))
    assert run_npz(tmp_path, monkeypatch, capsys, good)[0] == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()


# places -----------------------------------------------------------------------------------------------------
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert_refused(fedswe(monkeypatch, capsys, "run", *QUICK, "--out", tmp_path / "locked" / "out"), "cannot write")


def no_more_than(size):
    """A disk that is full after `size` bytes of any file, for a child process."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails like one on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize("size", [100, 700, 4000])
def test_a_full_disk(size, tmp_path):
    """Whatever is there afterwards is whole: the limit hits the first file, the checkpoint, or the trajectory."""
    out = tmp_path / "full"
    words = [*QUICK, "rounds=40", "record.checkpoint=1", "record.trajectory=true", "--out", out]
    run = process("run", *words, stderr=subprocess.PIPE, text=True, preexec_fn=no_more_than(size))
    err = run.communicate()[1]
    assert_refused((run.returncode, "", err), "cannot write")
    left = {p.name for p in out.iterdir()} if out.exists() else set()
    assert not any(name.endswith(".part") for name in left)
    if size == 100:
        assert not left
    for name in left & {"trajectory.csv", "history.csv"}:
        assert (out / name).read_text()[-1:] in ("\n", "")
