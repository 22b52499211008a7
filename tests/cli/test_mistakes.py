"""Bad input: one clear line, exit code 2, nothing half-written, never a traceback."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from fedswe.errors import NO_DIRECTORY
from fedswe.failures import explained
from tests.cli.command import fedswe, process

QUICK = ["task.clients=10", "task.alpha=1", "rounds=3"]
MASK = ["availability.name=mask", "availability.file={tmp}/mask.csv", "task.name=quadratic", "rounds=4"]


def arrays(**changes):
    rng = np.random.default_rng(0)
    good = {
        "x_train": rng.random((40, 4, 4)), "y_train": np.arange(40) % 3,
        "x_test": rng.random((9, 4, 4)), "y_test": np.arange(9) % 3,
    }  # fmt: skip
    return {k: v for k, v in {**good, **changes}.items() if v is not None}


def with_nan(x):
    x[3] = np.nan
    return x


MASKS = {
    "wide": ("1,0,1\n" * 4, "has 3 columns for 2 clients"),
    "short": ("1,0\n0,1\n1,1\n", "has 3 rounds but rounds = 4"),
    "words": ("1,yes\n" * 4, "is not a CSV of numbers, rows of equal length (line 1: 'yes' is not a number)"),
    "ragged": ("1,0\n1\n", "is not a CSV of numbers"),
    "values": ("1,1\n1,2\n" * 2, "must hold only 0 and 1, found 2 (line 2)"),
    "nobody": ("0,0\n" * 4, "no client is available in any of the 4 rounds"),
    "empty": ("", "is empty"),
    "binary": (b"\xff\x00\x81", "is not a CSV of numbers"),
}


@pytest.mark.parametrize("case", MASKS)
def test_masks(case, tmp_path, monkeypatch, capsys):
    content, message = MASKS[case]
    (tmp_path / "mask.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    words = [w.format(tmp=tmp_path) for w in MASK]
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "out"), message)


def assert_refused(tmp_path, result, message):
    code, _, err = result
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithm.name=fedsve"], "did you mean fedswe"),
        (["algorithm.k=-1"], "k must be 0 or more"),
        (["availability.p=2"], "p must be within [0, 1]"),
        (["availability.p=[0.5]"], "availability.p has 1 values for 10 clients"),
        (["task.clients=1400", "task.alpha=0.1"], "has no data"),
        (["device=cuda"], "no GPU is visible"),
        (["device=tpu"], 'device must be "cpu"'),
        (["device=cpu:0x"], 'device must be "cpu"'),
        (["algorithm.name=[1]"], "unknown algorithm [1]"),
        (["algorithm.k=inf"], "k must be 0 or more, not inf"),
        (["algorithm.clip=inf"], "clip must be 0 (off) or positive, not inf"),
        (["local.lr=inf"], "lr must be positive, not inf"),
        (["local.clip=true"], "local.clip: must be a number, not true"),
        (["availability.p=true"], "availability.p: must be a number, not true"),
        (["rounds=false"], "rounds: must be a number, not false"),
        (["local=3"], "write local.KEY=... or [local]"),
        (["algorithm=fedavg"], "write algorithm.name=... or [algorithm]"),
        (["nowhere.toml"], "cannot read nowhere.toml"),
        (["a.toml", "b.toml"], "one configuration file at a time"),
        (["task.name=quadratic", "availability.p=[]"], "p is an empty list"),
        (["task.name=quadratic", "task.centers=[[1.0],[2.0,3.0]]"], "rows of equal length"),
        (["task.name=quadratic", "task.centers=[[nan]]"], "NaN or infinity"),
        (["task.name=quadratic", "task.centers_file=none.csv"], "there is no file none.csv"),
        (["task.name=quadratic", "task.start=[1,2,3]"], "task.start must be one number"),
        (["task.name=npz"], "task.file is missing"),
        (["task.name=npz", "task.file=none.npz"], "there is no file none.npz"),
        (["availability.name=mask", "availability.file=none.csv"], "there is no file none.csv"),
    ],
)
def test_words(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # one line of the list is about that
    base = [] if any("quadratic" in w or "npz" in w for w in words) else QUICK
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, "run", *base, *words, "--out", tmp_path / "out"), message)


def test_a_refused_run_takes_no_number(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, "run", "availability.p=[0.5]"), "has 1 values for 50 clients")
    assert not (tmp_path / "runs").exists()


def test_known_probabilities_need_to_be_known(tmp_path, monkeypatch, capsys):
    (tmp_path / "mask.csv").write_text("1,0\n0,1\n" * 2)
    words = [*(w.format(tmp=tmp_path) for w in MASK), "algorithm.name=fedavg_known"]
    assert_refused(
        tmp_path, fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "out"), "give availability.prob_file"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [("0.5,1.5\n", "within [0, 1]"), ("0.5,0.5\n" * 3, "has 3 rows"), ("0,1\n", "gives probability 0 to a client")],
)
def test_probabilities_of_a_mask(content, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "mask.csv").write_text("1,0\n" * 4)
    (tmp_path / "prob.csv").write_text(content)
    words = [*(w.format(tmp=tmp_path) for w in MASK), f"availability.prob_file={tmp_path}/prob.csv"]
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "out"), message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": with_nan(np.ones((40, 4, 4)))}, "x_train holds NaN or infinity"),
        ({"y_test": None}, "has no array y_test"),
        ({"y_train": np.arange(39) % 3}, "must hold one label per sample (40)"),
        ({"y_train": -np.ones(40, dtype=int)}, "integers from 0"),
        ({"y_train": np.full(40, 0.5)}, "integers from 0"),
        ({"x_test": np.ones((9, 5, 5))}, "x_test (1, 5, 5)"),
        ({"x_train": np.array(["a"] * 40).reshape(40, 1)}, "must hold numbers"),
        ({"x_train": np.array([object()] * 40, dtype=object)}, "cannot be read as .npz"),
    ],
)
def test_npz(changes, message, tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "data.npz", **arrays(**changes))
    words = ["task.name=npz", f"task.file={tmp_path}/data.npz", "task.clients=3", "task.alpha=5", "rounds=2"]
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "out"), message)


@pytest.mark.parametrize("keep", [0, 10, 100, 1000])
def test_truncated_npz(keep, tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "whole.npz", **arrays())
    (tmp_path / "data.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:keep])
    words = ["task.name=npz", f"task.file={tmp_path}/data.npz", "task.clients=3", "rounds=2"]
    assert_refused(
        tmp_path, fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "out"), "cannot be read as .npz"
    )


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 3), (3, 4, 4), (7,)])
def test_good_npz_runs(shape, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(1)
    changes = {"x_train": rng.random((40, *shape)), "x_test": rng.random((9, *shape))}
    np.savez(tmp_path / "data.npz", **arrays(**changes))
    words = ["task.name=npz", f"task.file={tmp_path}/data.npz", "task.clients=3", "task.alpha=5", "rounds=2"]
    assert fedswe(monkeypatch, capsys, "run", *words, "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_directory_in_use(tmp_path, monkeypatch, capsys):
    out = tmp_path / "taken"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    result = fedswe(monkeypatch, capsys, "run", *QUICK, "--out", out)
    assert_refused(tmp_path, result, "is not empty")
    assert [p.name for p in out.iterdir()] == ["notes.txt"]


def test_an_unwritable_place(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("not a folder")
    result = fedswe(monkeypatch, capsys, "run", *QUICK, "--out", tmp_path / "file" / "out")
    assert_refused(tmp_path, result, "cannot write")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "locked").mkdir(mode=0o500)
    result = fedswe(monkeypatch, capsys, "run", *QUICK, "--out", tmp_path / "locked" / "out")
    assert_refused(tmp_path, result, "cannot write")


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
    assert run.returncode == 2
    assert err.startswith("error: cannot write")
    assert err.count("\n") == 1
    left = {p.name for p in out.iterdir()} if out.exists() else set()
    assert not any(name.endswith(".part") for name in left)
    if size == 100:
        assert not left
    for name in left & {"trajectory.csv", "history.csv"}:
        assert (out / name).read_text()[-1:] in ("\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "--algorithms", "fedavg,fedavg"], "twice"),
        (["compare", "--algorithms", "fedsve"], "did you mean fedswe"),
        (["compare", "--algorithms", "fedswe:k=-1"], "k must be 0 or more"),
        (["compare", "--algorithms", ","], "--algorithms is empty"),
        (["compare", "--seeds", "three"], "--seeds must be whole numbers"),
        (["compare", "--seeds", "3.5"], "--seeds must be whole numbers"),
        (["compare", "--seeds", "nan"], "--seeds must be whole numbers"),
        (["compare", "--seeds", "3,3"], "--seeds names one seed twice"),
        (["compare", "--seeds", "-1"], "seed must be from 0"),
        (["compare", "--seeds", ""], "--seeds is empty"),
        (["compare", "--tune", "0.1", "--seeds", "1"], "is used for tuning"),
        (["compare", "--tune", "fast"], "--tune must be numbers"),
        (["compare", "--tune", "0.1,1e-1"], "--tune names one rate twice"),
        (["compare", "--tune", "0.1,-1"], "lr must be positive, not -1"),
        (["compare", "--jobs", "-1"], "--jobs must be 0 (one per core, one for a GPU) or positive, not -1"),
        (["show", "fedaw"], "did you mean fedawe"),
        (["show", "xyzzy"], "see fedswe list"),
    ],
)
def test_other_commands(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    more = ["rounds=2", "task.clients=10", "task.alpha=1"] if words[0] == "compare" else []
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, *words, *more), message)
    assert not (tmp_path / "runs").exists()


def test_clients_of_every_seed_are_looked_at_before_the_first_run(tmp_path, monkeypatch, capsys):
    """Seed 3 parts the digits among 600 clients, seed 1 leaves one of them without any."""
    words = [
        "compare",
        "task.clients=600",
        "rounds=1",
        "--algorithms",
        "fedavg",
        "--jobs",
        "1",
        "--out",
        tmp_path / "out",
    ]
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, *words, "--seeds", "3,1"), "has no data")
    assert_refused(tmp_path, fedswe(monkeypatch, capsys, *words, "--seeds", "3", "--tune", "0.1,1"), "has no data")


def test_no_traceback_from_a_real_process(tmp_path):
    run = process(
        "run", "algorithm.k=-1", "--out", tmp_path / "out", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, err = run.communicate()
    assert_refused(tmp_path, (run.returncode, out, err), "k must be 0 or more")


def test_a_directory_that_was_removed_is_named(tmp_path):
    """A shell may stand in a directory that is gone, and a directory may go while a command runs."""
    gone = tmp_path / "gone"
    gone.mkdir()
    words = [sys.executable, "-m", "fedswe", "run", *QUICK, "--out", str(tmp_path / "a")]
    command = ["bash", "-c", 'rmdir "$1"; shift; exec "$@"', "bash", str(gone), *words]
    done = subprocess.run(command, cwd=gone, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"error: {NO_DIRECTORY}"
    assert not (tmp_path / "a").exists()


def test_a_failure_in_a_directory_that_was_removed_is_explained(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    missing = FileNotFoundError(2, "No such file or directory")
    assert str(explained(missing)) != NO_DIRECTORY
    gone.rmdir()
    assert str(explained(missing)) == NO_DIRECTORY
