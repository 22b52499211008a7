"""The default task: the 8x8 handwritten digits that scikit-learn contains."""

from __future__ import annotations

import gzip
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedswe.core import keys
from fedswe.tasks.classification import ClassificationTask
from fedswe.tasks.data_set import DataSet


@dataclass(frozen=True)
class Digits(ClassificationTask):
    """1,797 images in ten classes; a fixed fifth of them, the same for every seed, is the test set."""

    title: ClassVar[str] = "handwritten digits, 8x8 (UCI, from scikit-learn)"

    def load(self) -> DataSet:
        return _load()


@lru_cache(maxsize=1)
def _load() -> DataSet:
    # Read from the package's file: importing scikit-learn takes a second.
    package = importlib.util.find_spec("sklearn")
    assert package is not None
    assert package.submodule_search_locations is not None
    with gzip.open(Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",")
    labels = table[:, -1].astype(np.int64)
    images = (table[:, :-1] / 16.0).reshape(-1, 1, 8, 8)
    order = keys.generator(0, "digits test set").permutation(len(labels))
    test, train = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
    return DataSet(images[train], labels[train], images[test], labels[test])
