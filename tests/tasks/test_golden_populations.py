"""Sizes, p_i and who comes, with the labels of the real data: golden values of the released code.

With the official files in $FEDSWE_DATA the labels are the real ones; without them as many of each class in a random
order, on which the values depend in no other way.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fedswe.availability import Sine, Stationary
from fedswe.datasets import DATASETS, load
from fedswe.engine.base import availability_of
from fedswe.experiment.experiment import Experiment, populate
from fedswe.tasks.classification import ClassificationTask
from fedswe.tasks.data_set import DataSet

SEEDS = (3, 4, 6)
SIZES = {
    "cifar10": {3: (365, 706), 4: (339, 727), 6: (432, 616)},
    "svhn": {3: (446, 1828), 4: (319, 1519), 6: (436, 1274)},
    "cinic10": {3: (658, 1271), 4: (611, 1306), 6: (777, 1109)},
}
P = {
    3: [0.326512, 0.195533, 0.360414, 0.549693, 0.487022],
    4: [0.4944, 0.706477, 0.401438, 0.386031, 0.59066],
    6: [0.503795, 0.212102, 0.416554, 0.503968, 0.631284],
}
PRESENT = {
    ("cifar10", 3, Stationary): [37, 45, 50, 38, 45, 40],
    ("cifar10", 3, Sine): [24, 33, 43, 36, 42, 40],
    ("cifar10", 4, Stationary): [41, 50, 40, 35, 37, 44],
    ("cifar10", 4, Sine): [31, 41, 31, 34, 38, 44],
    ("cifar10", 6, Stationary): [45, 51, 42, 38, 47, 56],
    ("cifar10", 6, Sine): [32, 38, 34, 42, 46, 56],
    ("svhn", 3, Stationary): [40, 47, 50, 38, 45, 38],
}
COUNTS = {
    "cifar10": [5000] * 10,
    "svhn": [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659],
    "cinic10": [9000] * 10,
}


def is_here(name):
    return bool(DATASETS[name].found(DATASETS[name].folder()))


def labels_of(name, source):
    if source == "generated":
        return np.random.default_rng(0).permutation(np.repeat(np.arange(10), COUNTS[name]))
    if not is_here(name):
        pytest.skip(f"no {name} in $FEDSWE_DATA")
    return load(DATASETS[name], DATASETS[name].folder()).y_train.astype(np.int64)


@dataclass(frozen=True)
class LabelsOnly(ClassificationTask):
    """Labels without images: all the partition and the availability look at."""

    clients: int = 100
    title: ClassVar[str] = "labels"
    labels: tuple[int, ...] = ()

    def load(self):
        y = np.array(self.labels)
        nothing = np.zeros((len(y), 1), np.float32)
        return DataSet(nothing, y, nothing, y)


def population(name, source, seed, model=Stationary):
    task = LabelsOnly(labels=tuple(labels_of(name, source).tolist()))
    return populate(Experiment(seed=seed, task=task, availability=model(stream="legacy")))


@pytest.mark.parametrize("source", ["real", "generated"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", list(SIZES))
def test_sizes(name, seed, source):
    problem, _ = population(name, source, seed)
    sizes = problem.samples.sizes(np.arange(problem.m))
    assert (sizes.min(), sizes.max()) == SIZES[name][seed]
    assert sizes.sum() == sum(COUNTS[name])


@pytest.mark.parametrize("source", ["real", "generated"])
@pytest.mark.parametrize("seed", SEEDS)
def test_probabilities(seed, source):
    _, schedule = population("cifar10", source, seed)
    np.testing.assert_allclose(schedule.prob(0)[:5], P[seed], atol=6e-7)


@pytest.mark.parametrize("source", ["real", "generated"])
@pytest.mark.parametrize(("name", "seed", "model"), list(PRESENT))
def test_who_comes(name, seed, model, source):
    _, schedule = population(name, source, seed, model)
    assert availability_of(schedule, 6).sum(1).tolist() == PRESENT[name, seed, model]


@pytest.mark.parametrize("name", list(DATASETS))
def test_the_real_files(name):
    """Sizes as published, and the fixed statistics are those of the training pixels."""
    if not is_here(name):
        pytest.skip(f"no {name} in $FEDSWE_DATA")
    dataset = DATASETS[name]
    images = load(dataset, dataset.folder())
    assert f"{len(images.y_train):,} for training, {len(images.y_test):,} for testing" in dataset.title
    assert images.x_train.shape[1:] == images.x_test.shape[1:]
    some = images.x_train[:: len(images.x_train) // 5000] / 255.0
    np.testing.assert_allclose(some.mean((0, 2, 3)), dataset.mean, atol=0.01)
    tolerance = 0.06  # CIFAR-10's are means of the images' own deviations, a slip of old that everybody keeps
    np.testing.assert_allclose(some.std((0, 2, 3)), dataset.std, atol=tolerance)
    if name == "fashion_mnist":
        assert round(float(images.x_train.mean()) / 255, 4) == dataset.mean[0]
        assert round(float(images.x_train.std()) / 255, 4) == dataset.std[0]
