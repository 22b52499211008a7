"""Fewer and smaller images of a data set."""

import gzip
import struct

import numpy as np
import pytest

from fedswe.errors import FedsweError
from fedswe.tasks.images import FashionMnist

SIZES = {"train": 60, "t10k": 20}


@pytest.fixture
def files(tmp_path):
    """Fashion-MNIST's format with few images."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name, count in SIZES.items():
        pixels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        for kind, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
            (tmp_path / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
        arrays[name] = pixels, labels
    return tmp_path, arrays


@pytest.mark.filterwarnings("ignore")
def test_pool_is_the_mean_of_squares_and_samples_a_subset(files):
    folder, arrays = files
    whole = FashionMnist(root=str(folder)).load()
    small = FashionMnist(root=str(folder), samples=30, pool=5).load()
    assert whole.x_train.shape == (60, 1, 28, 28)
    assert small.x_train.shape == (30, 1, 5, 5)  # three rows and columns fill no square
    assert small.x_test.shape == (20, 1, 5, 5)  # there are not more
    pixels, labels = arrays["train"]
    means = pixels[:, :25, :25].reshape(60, 5, 5, 5, 5).mean((2, 4)).round()
    for image, label in zip(small.x_train[:, 0], small.y_train, strict=True):
        assert any((means[i] == image).all() and labels[i] == label for i in range(60))
    assert len({image.tobytes() for image in small.x_train}) == 30
    again = FashionMnist(root=str(folder), samples=30, pool=5).load()
    assert (again.x_train == small.x_train).all()


@pytest.mark.filterwarnings("ignore")
def test_mistakes(files):
    with pytest.raises(FedsweError, match="samples must be"):
        FashionMnist(samples=-1)
    with pytest.raises(FedsweError, match="pool must be"):
        FashionMnist(pool=0)
    with pytest.raises(FedsweError, match=r"task\.pool must be at most 28"):
        FashionMnist(root=str(files[0]), pool=29).load()
