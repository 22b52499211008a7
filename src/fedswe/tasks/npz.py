"""A labelled data set of numpy arrays in one .npz file."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require
from fedswe.tasks.classification import ClassificationTask
from fedswe.tasks.data_set import DataSet

_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_CLASSES = 100_000  # a larger label is a mistake: every label up to the largest gets an output and a share per client


@dataclass(frozen=True)
class Npz(ClassificationTask):
    """Arrays x_train, y_train, x_test, y_test; inputs are standardised per channel by the training set.

    Images are [N, H, W], [N, H, W, channels] or [N, channels, H, W] with 1, 3 or 4 channels; anything else is
    taken as flat features [N, ...]. Labels are integers from 0.
    """

    file: str = ""  # path of the .npz file

    title: ClassVar[str] = "a data set in a .npz file"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.file, "task.file is missing: give the path of the .npz with x_train, y_train, x_test, y_test")

    def load(self) -> DataSet:
        if not Path(self.file).is_file():
            raise FedsweError(f"task.file: there is no file {self.file}")
        status = Path(self.file).stat()
        return _load(self.file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _load(file: str, _modified: int, _size: int) -> DataSet:
    """Read, check and standardise; kept while the file stays as it is."""
    arrays = _read(file)
    x_train, x_test = (_inputs(file, arrays, name) for name in ("x_train", "x_test"))
    require(
        x_train.shape[1:] == x_test.shape[1:],
        f"{file}: x_train has shape {x_train.shape[1:]} per sample, x_test {x_test.shape[1:]}",
    )
    axes = (0, 2, 3) if x_train.ndim == 4 else (0,)
    mean = x_train.mean(axes, keepdims=True, dtype=np.float64).astype(np.float32)
    std = x_train.std(axes, keepdims=True, dtype=np.float64).astype(np.float32)
    std[std == 0] = 1.0
    return DataSet(
        (x_train - mean) / std,
        _labels(file, arrays, "y_train", len(x_train)),
        (x_test - mean) / std,
        _labels(file, arrays, "y_test", len(x_test)),
        tuple(mean.ravel().tolist()),
        tuple(std.ravel().tolist()),
    )


def _inputs(file: str, arrays: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[np.float32]:
    x = arrays[name]
    require(x.ndim >= 2 and len(x), f"{file}: {name} must hold samples along its first axis")
    require(x.dtype.kind in "biuf", f"{file}: {name} must hold numbers, not {x.dtype}")
    x = x.astype(np.float32)
    require(np.isfinite(x).all(), f"{file}: {name} holds NaN or infinity")
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[3] in (1, 3, 4):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x if x.ndim == 4 and x.shape[1] in (1, 3, 4) else x.reshape(len(x), -1)


def _labels(file: str, arrays: dict[str, npt.NDArray[Any]], name: str, size: int) -> npt.NDArray[np.int64]:
    y = arrays[name]
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    require(y.shape == (size,), f"{file}: {name} must hold one label per sample ({size})")
    whole = y.dtype.kind in "iu" or (y.dtype.kind == "f" and bool((y == np.floor(y)).all()))
    require(
        whole and y.min() >= 0 and y.max() < _CLASSES,
        f"{file}: {name} must hold the numbers of classes, integers from 0 to {_CLASSES - 1} at most",
    )
    return y.astype(np.int64)


def _read(file: str) -> dict[str, npt.NDArray[Any]]:
    try:
        with open(file, "rb") as handle, np.load(handle, allow_pickle=False) as stored:
            missing = [name for name in _ARRAYS if name not in stored]
            require(not missing, f"{file} has no array {', '.join(missing)}: it needs {', '.join(_ARRAYS)}")
            return {name: stored[name] for name in _ARRAYS}
    except FedsweError:
        raise
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
        AttributeError,
    ) as error:
        raise FedsweError(f"{file} cannot be read as .npz ({error}): is it complete?") from None
