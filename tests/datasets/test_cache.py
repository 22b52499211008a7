"""Where files are looked for, what is said when they are not there, and images decoded once."""

import logging
import os
from dataclasses import replace

import numpy as np
import pytest

from fedswe.datasets import DATASETS, cache, load
from fedswe.datasets.catalogue import data_folder, md5_of
from fedswe.errors import FedsweError
from fedswe.tasks import Svhn
from tests.datasets import official_files


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """A data folder of its own, and nothing remembered from another test."""
    monkeypatch.setenv("FEDSWE_DATA", str(tmp_path / "data"))
    cache._load.cache_clear()
    return tmp_path / "data"


def stored(data):
    return sorted(path.name for path in (data / "decoded").iterdir())


def again(dataset, folder):
    """What another process would load."""
    cache._load.cache_clear()
    return load(dataset, folder)


def official(name, folder):
    """The data set with the files that are there as the official ones."""
    dataset = DATASETS[name]
    return replace(dataset, files=tuple(replace(f, md5=md5_of(folder / f.name)) for f in dataset.files))


def test_images_are_memory_mapped_and_decoded_once(data):
    folder = data / "fashion_mnist"
    (x, y), _ = official_files.fashion(folder)
    first = load(DATASETS["fashion_mnist"], folder)
    assert load(DATASETS["fashion_mnist"], folder) is first
    mapped = again(DATASETS["fashion_mnist"], folder)
    assert isinstance(mapped.x_train, np.memmap)
    assert not mapped.x_train.flags.writeable
    np.testing.assert_array_equal(mapped.x_train, x)
    np.testing.assert_array_equal(mapped.y_train, y)
    assert len(stored(data)) == 1
    before = (data / "decoded" / stored(data)[0]).stat().st_mtime_ns
    again(DATASETS["fashion_mnist"], folder)
    assert (data / "decoded" / stored(data)[0]).stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["svhn", "cinic10"])
def test_a_changed_source_is_decoded_anew_and_the_old_one_goes(data, name):
    folder = data / name
    getattr(official_files, name.removesuffix("10"))(folder)
    load(DATASETS[name], folder)
    before = stored(data)
    if name == "svhn":
        changed = official_files.svhn(folder, n=(25, 15))[0][0]
        assert len(load(DATASETS[name], folder).x_train) == len(changed)
    else:
        image = np.full((32, 32, 3), 7, np.uint8)
        path = folder / "train" / "airplane" / "n8.png"
        path.write_bytes(official_files.png(image))
        assert (load(DATASETS[name], folder).x_train[0] == 7).all()
    assert len(stored(data)) == 1
    assert stored(data) != before


def test_two_roots_keep_a_copy_each(data, tmp_path):
    for name in ("a", "b"):
        official_files.svhn(tmp_path / name)
        load(DATASETS["svhn"], tmp_path / name)
    assert len(stored(data)) == 2


def test_a_damaged_copy_is_made_again(data):
    (x, _), _ = official_files.svhn(data / "svhn")
    load(DATASETS["svhn"], data / "svhn")
    (data / "decoded" / stored(data)[0] / "x_train.npy").write_bytes(b"\x93NUMPY")
    np.testing.assert_array_equal(again(DATASETS["svhn"], data / "svhn").x_train, x)
    assert isinstance(again(DATASETS["svhn"], data / "svhn").x_train, np.memmap)
    assert len(stored(data)) == 1


def test_without_room_for_a_copy_the_images_are_used_all_the_same(data, caplog):
    (x, _), _ = official_files.svhn(data / "svhn")
    (data / "decoded").write_text("a file where the folder should be")
    np.testing.assert_array_equal(load(DATASETS["svhn"], data / "svhn").x_train, x)
    assert any("decoded again next time" in r.getMessage() for r in caplog.records)


def test_a_file_that_is_not_the_official_one_is_named_once(data, caplog):
    folder = data / "svhn"
    official_files.svhn(folder)
    caplog.set_level(logging.WARNING, "fedswe")
    for _ in range(3):
        load(DATASETS["svhn"], folder)
    (record,) = caplog.records
    assert "train_32x32.mat, test_32x32.mat" in record.getMessage()
    assert "not the official checksum" in record.getMessage()
    again(DATASETS["svhn"], folder)  # another process reads the decoded copy, and is told too
    assert len(caplog.records) == 2


def test_official_files_are_used_in_silence(data, caplog):
    folder = data / "fashion_mnist"
    official_files.fashion(folder)
    load(official("fashion_mnist", folder), folder)
    assert not caplog.records


def test_only_the_wrong_file_is_named(data, caplog):
    folder = data / "svhn"
    official_files.svhn(folder)
    dataset = official("svhn", folder)
    official_files.svhn(folder, n=(30, 15))  # a complete file of its kind: only the checksum can tell
    assert len(load(dataset, folder).y_test) == 15
    assert "test_32x32.mat" in caplog.records[0].getMessage()
    assert "train_32x32.mat" not in caplog.records[0].getMessage()


def test_where_data_are(data, monkeypatch, tmp_path):
    svhn = DATASETS["svhn"]
    assert svhn.folder() == data / "svhn"
    assert svhn.folder(str(tmp_path / "mine")) == tmp_path / "mine"
    monkeypatch.delenv("FEDSWE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "fedswe"


@pytest.mark.parametrize("name", list(DATASETS))
def test_missing_files_are_named_with_sizes_checksums_and_place(data, name):
    dataset = DATASETS[name]
    with pytest.raises(FedsweError) as caught:
        load(dataset, data / name)
    message = str(caught.value)
    assert "\n" not in message
    assert f"`fedswe data fetch {name}`" in message
    assert str(data / name) in message
    for file in dataset.files:
        assert f"{file.name} ({file.size:,} bytes, md5 {file.md5})" in message


def test_of_an_incomplete_set_only_what_is_missing_is_named(data):
    official_files.svhn(data / "svhn")
    os.unlink(data / "svhn" / "test_32x32.mat")
    with pytest.raises(FedsweError, match=r"svhn is not in .*put there test_32x32.mat \(64,275,384") as caught:
        load(DATASETS["svhn"], data / "svhn")
    assert "train_32x32.mat" not in str(caught.value)


def test_a_file_with_a_checksum_goes_before_an_unpacked_folder(data):
    folder = data / "cifar10"
    official_files.cifar(folder, packed=False)
    assert DATASETS["cifar10"].found(folder) == ("cifar-10-batches-bin",)
    official_files.cifar(folder, packed=True)
    assert DATASETS["cifar10"].found(folder) == ("cifar-10-binary.tar.gz",)


def test_tasks_of_one_process_share_the_data(data):
    official_files.svhn(data / "svhn")
    assert Svhn(clients=2).load() is Svhn(clients=3, root=str(data / "svhn")).load()
