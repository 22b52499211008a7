"""The embedded default: scikit-learn's real 8x8 handwritten digits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from fedswe.core import keys
from fedswe.tasks.labelled import Labelled, LabelledTask


@dataclass(frozen=True)
class Digits(LabelledTask):
    """1,797 images in ten classes; a fixed fifth of them, the same for every seed, is the test set."""

    title: ClassVar[str] = "handwritten digits, 8x8 (UCI, from scikit-learn)"

    def load(self) -> Labelled:
        return _load()


@lru_cache(maxsize=1)
def _load() -> Labelled:
    from sklearn.datasets import load_digits  # slow to import, and only this task needs it

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16.0).reshape(-1, 1, 8, 8)
    order = keys.generator(0, "digits test set").permutation(len(labels))
    test, train = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
    return Labelled(images[train], labels[train], images[test], labels[test])
