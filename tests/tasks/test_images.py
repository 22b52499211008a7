"""Fewer and smaller images of a data set."""

import pytest

from fedswe.errors import FedsweError
from fedswe.tasks.images import FashionMnist
from tests.datasets import official_files


@pytest.mark.filterwarnings("ignore")
def test_pool_is_the_mean_of_squares_and_samples_a_subset(tmp_path):
    (pixels, labels), _ = official_files.fashion(tmp_path, n=(60, 20))
    whole = FashionMnist(root=str(tmp_path)).load()
    small = FashionMnist(root=str(tmp_path), samples=30, pool=5).load()
    assert whole.x_train.shape == (60, 1, 28, 28)
    assert small.x_train.shape == (30, 1, 5, 5)  # three rows and columns fill no square
    assert small.x_test.shape == (20, 1, 5, 5)  # there are not more
    means = pixels[:, 0, :25, :25].reshape(60, 5, 5, 5, 5).mean((2, 4)).round()
    for image, label in zip(small.x_train[:, 0], small.y_train, strict=True):
        assert any((means[i] == image).all() and labels[i] == label for i in range(60))
    assert len({image.tobytes() for image in small.x_train}) == 30
    again = FashionMnist(root=str(tmp_path), samples=30, pool=5).load()
    assert (again.x_train == small.x_train).all()


@pytest.mark.filterwarnings("ignore")
def test_mistakes(tmp_path):
    official_files.fashion(tmp_path)
    for wrong in ({"samples": -1}, {"pool": 0}, {"pool": 29}):
        with pytest.raises(FedsweError, match=f"{next(iter(wrong))} must be"):
            FashionMnist(root=str(tmp_path), **wrong).load()
