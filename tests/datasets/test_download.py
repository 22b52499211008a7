"""Downloads from a real server: checksums compared, wrong files replaced, nothing half-written."""

import os
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedswe.datasets import DATASETS, load
from fedswe.datasets.catalogue import OfficialFile, md5_of
from fedswe.datasets.download import fetch
from fedswe.errors import FedsweError
from tests.datasets import official_files

asked = []


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        asked.append(self.path)


@pytest.fixture
def server(tmp_path):
    """Serves Fashion-MNIST's file names with a tiny content; yields its address and the data set with its checksums."""
    official_files.fashion(tmp_path / "served")
    asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path / "served")) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{http.server_port}"
        dataset = DATASETS["fashion_mnist"]
        files = tuple(OfficialFile(f.name, f.size, md5_of(tmp_path / "served" / f.name)) for f in dataset.files)
        yield address, replace(dataset, address=address, files=files)
        http.shutdown()
        thread.join()


def test_fetched_files_are_the_served_ones_and_load(server, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSWE_DATA", str(tmp_path / "data"))
    _, dataset = server
    folder = tmp_path / "data" / "fashion_mnist"
    fetch(dataset, folder)
    for file in dataset.files:
        assert (folder / file.name).read_bytes() == (tmp_path / "served" / file.name).read_bytes()
    assert len(load(dataset, folder).y_train) == 40


def test_only_what_is_missing_or_wrong_is_fetched(server, tmp_path):
    _, dataset = server
    folder = tmp_path / "data"
    fetch(dataset, folder)
    asked.clear()
    fetch(dataset, folder)
    assert asked == []
    wrong, gone, *_ = (folder / file.name for file in dataset.files)
    wrong.write_bytes(wrong.read_bytes()[:100])  # as an interrupted copy leaves it
    os.unlink(gone)
    fetch(dataset, folder)
    assert sorted(asked) == sorted([f"/{wrong.name}", f"/{gone.name}"])
    assert wrong.read_bytes() == (tmp_path / "served" / wrong.name).read_bytes()


def test_a_wrong_file_from_the_server_is_refused_and_not_kept(server, tmp_path):
    address, _ = server
    folder = tmp_path / "data"
    with pytest.raises(FedsweError, match=r"train-images-idx3-ubyte.gz is not the official .*nothing was kept"):
        fetch(DATASETS["fashion_mnist"], folder, mirror=address)  # the true checksums
    assert list(folder.iterdir()) == []


def test_a_file_the_server_has_not(server, tmp_path):
    address, dataset = server
    os.unlink(tmp_path / "served" / "t10k-images-idx3-ubyte.gz")
    with pytest.raises(FedsweError, match=r"t10k-images-idx3-ubyte.gz \(404 .*or put t10k-images-idx3-ubyte.gz \(4,4"):
        fetch(dataset, tmp_path / "data", mirror=address + "/")


def test_no_server_at_all(tmp_path):
    with pytest.raises(FedsweError, match=r"download http://127.0.0.1:9/train_32x32.mat \(ConnectionError\)") as e:
        fetch(DATASETS["svhn"], tmp_path / "data", mirror="http://127.0.0.1:9")
    assert "\n" not in str(e.value)
