"""fedswe data and the image tasks."""

import json
import os
import subprocess
from functools import partial

import numpy as np
import pytest

from fedswe.datasets import DATASETS
from tests.cli.command import fedswe as command
from tests.cli.command import process
from tests.datasets import official_files


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSWE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def fedswe(monkeypatch, capsys):
    """Exit code, stdout and stderr of a command."""
    return partial(command, monkeypatch, capsys)


def test_list_and_verify_as_json(data, fedswe):
    official_files.svhn(data / "svhn")
    listed = {entry["name"]: entry for entry in json.loads(fedswe("data", "list", "--json")[1])}
    assert listed.keys() == DATASETS.keys()
    assert listed["svhn"]["folder"] == str(data / "svhn")
    assert listed["svhn"]["found"]
    assert listed["cifar10"]["found"] is None
    code, out, _ = fedswe("data", "verify", "--json")
    (verified,) = json.loads(out)
    assert (code, verified["name"]) == (1, "svhn")
    assert [file["official"] for file in verified["files"]] == [False, False]
    assert sum(verified["images_by_class"]["train"]) == 30


def test_verify_names_what_is_not_official(data):
    """A process of its own, whose log is on stderr."""
    official_files.svhn(data / "svhn")
    done = process("data", "verify", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = done.communicate(timeout=300)
    assert done.returncode == 1
    assert out.count("NOT the official file") == 2
    assert "svhn  train: 30 images" in out
    assert err.count("\n") == 1
    assert "train_32x32.mat" in err


def test_processes_that_decode_at_the_same_time(data):
    official_files.svhn(data / "svhn", n=(4000, 2000))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    several = [process("data", "verify", "svhn", **pipes) for _ in range(3)]
    for one in several:
        out, err = one.communicate(timeout=300)
        assert "train: 4,000 images" in out
        assert "decoded again" not in err
    assert len(os.listdir(data / "decoded")) == 1  # and nothing half-written beside it


def test_a_damaged_file_is_one_line(data, fedswe):
    official_files.fashion(data / "fashion_mnist")
    path = data / "fashion_mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:500])
    code, _, err = fedswe("run", "task.name=fashion_mnist", "rounds=1", "--out", data / "run")
    assert (code, err.count("\n")) == (2, 1)
    assert str(path) in err
    assert not (data / "run" / "history.csv").exists()


@pytest.mark.parametrize(
    ("name", "model", "write"),
    [
        ("svhn", "svhn_cnn", official_files.svhn),
        ("cifar10", "cifar10_cnn", partial(official_files.cifar, packed=True)),
        ("cinic10", "cinic10_cnn", official_files.cinic),
        ("fashion_mnist", "cnn", official_files.fashion),
    ],
)
def test_a_run_on_files_in_a_folder_of_ones_own(data, tmp_path, name, model, write, fedswe, caplog):
    write(tmp_path / "mine")
    words = [f"task.name={name}", f"task.root={tmp_path / 'mine'}", f"task.model={model}", "task.alpha=10"]
    words += ["task.clients=3", "rounds=2", "local.steps=2", "local.batch_size=4", "evaluate.every=1"]
    code, _, err = fedswe("run", *words, "--out", tmp_path / "run")
    assert code == 0, err
    assert caplog.text.count("not the official checksum") == (0 if name == "cinic10" else 1)
    history = np.genfromtxt(tmp_path / "run" / "history.csv", delimiter=",", names=True)
    assert np.isfinite(history["server_test_loss"]).all()
    assert history["round"].tolist() == [0, 1, 2]


def test_a_run_never_downloads(data, fedswe):
    code, _, err = fedswe("run", "task.name=cinic10", "rounds=1")
    assert (code, err.count("\n")) == (2, 1)
    assert "run `fedswe data fetch cinic10`" in err
    assert not data.exists()
