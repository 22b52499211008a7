"""Readers of the genuine formats: what was written is what is read, and damage is named in one line."""

import gzip
import shutil

import numpy as np
import pytest

from fedswe.datasets import DATASETS
from fedswe.datasets.readers import CINIC_CLASSES
from fedswe.errors import FedsweError
from tests.datasets import official_files


def read(name, folder):
    assert DATASETS[name].found(folder)
    return DATASETS[name].read(folder)


def refused(name, folder):
    with pytest.raises(FedsweError) as caught:
        read(name, folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def assert_images(images, train, test):
    for got, want in zip((images.x_train, images.y_train, images.x_test, images.y_test), (*train, *test), strict=True):
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, want)


def test_svhn(tmp_path):
    train, test = official_files.svhn(tmp_path)
    assert_images(read("svhn", tmp_path), train, test)


@pytest.mark.parametrize("packed", [True, False])
def test_cifar10(tmp_path, packed):
    batches = official_files.cifar(tmp_path, packed)
    x, y = zip(*(batches[f"data_batch_{i}"] for i in range(1, 6)), strict=True)
    assert_images(read("cifar10", tmp_path), (np.concatenate(x), np.concatenate(y)), batches["test_batch"])


@pytest.mark.parametrize("packed", [True, False])
def test_cinic10_in_the_order_of_torchvision(tmp_path, packed):
    images = official_files.cinic(tmp_path, packed)
    got = read("cinic10", tmp_path)
    for split, x, y in (("train", got.x_train, got.y_train), ("test", got.x_test, got.y_test)):
        want = np.concatenate([images[split, kind][::-1] for kind in CINIC_CLASSES])  # names run backwards
        np.testing.assert_array_equal(x, want.transpose(0, 3, 1, 2))
        np.testing.assert_array_equal(y, np.repeat(np.arange(10), 2))


def test_fashion_mnist(tmp_path):
    train, test = official_files.fashion(tmp_path)
    assert_images(read("fashion_mnist", tmp_path), train, test)


FILES = [
    ("svhn", (), "train_32x32.mat"),
    ("fashion", (), "train-images-idx3-ubyte.gz"),
    ("fashion", (), "t10k-labels-idx1-ubyte.gz"),
    ("cinic", (False,), "train/cat/n9.png"),
    ("cinic", (True,), "CINIC-10.tar.gz"),
    ("cifar", (False,), "cifar-10-batches-bin/data_batch_3.bin"),
    ("cifar", (True,), "cifar-10-binary.tar.gz"),
]
NAMES = {"fashion": "fashion_mnist", "cinic": "cinic10", "cifar": "cifar10"}


@pytest.mark.parametrize(("writer", "form", "file"), FILES)
@pytest.mark.parametrize("keep", [0.0, 0.31, 0.87, "noise"])
def test_a_file_that_is_truncated_or_noise_is_named(tmp_path, writer, form, file, keep):
    getattr(official_files, writer)(tmp_path, *form)
    path = tmp_path / file
    content = path.read_bytes()
    noise = np.random.default_rng(1).bytes(len(content) | 1)
    path.write_bytes(noise if keep == "noise" else content[: int(keep * len(content))])
    assert path.name in refused(NAMES.get(writer, writer), tmp_path)


def test_labels_out_of_range(tmp_path):
    batches = official_files.cifar_batches()
    x, y = batches["data_batch_2"]
    batches["data_batch_2"] = x, y + 1
    official_files.cifar(tmp_path, packed=False, batches=batches)
    assert "data_batch_2.bin has label 10" in refused("cifar10", tmp_path)


def test_images_and_labels_must_be_as_many(tmp_path):
    official_files.fashion(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(official_files.idx(official_files.labels(0, 19)))
    )
    assert "20 images but 19 labels" in refused("fashion_mnist", tmp_path)


def test_a_class_without_images_and_one_that_is_not_known(tmp_path):
    official_files.cinic(tmp_path)
    shutil.rmtree(tmp_path / "test" / "frog")
    assert "no images in test/frog" in refused("cinic10", tmp_path)


def test_an_image_of_another_size(tmp_path):
    official_files.cinic(tmp_path)
    (tmp_path / "train" / "dog" / "large.png").write_bytes(official_files.png(np.zeros((16, 48, 3), np.uint8)))
    assert "large.png" in refused("cinic10", tmp_path)
    assert "48x16" in refused("cinic10", tmp_path)
