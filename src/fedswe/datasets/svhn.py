"""SVHN's cropped digits: Matlab files with X [32, 32, 3, N] and y [N, 1], where 10 stands for the digit 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedswe.datasets.images import Images, Pixels, checked, damaged


def read_mat(folder: Path) -> Images:
    return Images(*_split(folder / "train_32x32.mat"), *_split(folder / "test_32x32.mat"))


def _split(path: Path) -> tuple[Pixels, Pixels]:
    from scipy.io import loadmat  # slow to import, and needed once per file

    try:
        stored = loadmat(path, variable_names=("X", "y"))
        x, y = stored["X"], stored["y"].reshape(-1)
    except Exception as error:  # a damaged file may fail anywhere in the parser
        raise damaged(path, error) from None
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
        raise damaged(path, f"X is {x.dtype} {list(x.shape)}, not uint8 [32, 32, 3, N]")
    labels = np.where(y == 10, 0, y).astype(np.uint8)
    return checked(x.transpose(3, 2, 0, 1), labels, path)
