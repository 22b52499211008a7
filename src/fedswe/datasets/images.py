"""The arrays that every format is decoded to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require

Pixels = npt.NDArray[np.uint8]
CLASSES = 10  # of every data set


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels [N, channels, height, width] and labels [N], all uint8."""

    x_train: Pixels
    y_train: Pixels
    x_test: Pixels
    y_test: Pixels


ARRAYS = tuple(f.name for f in fields(Images))


def checked(pixels: Pixels, labels: Pixels, where: Path) -> tuple[Pixels, Pixels]:
    """Refuse different numbers of images and labels, no images, and labels that are no class."""
    require(len(pixels) == len(labels), f"{where} has {len(pixels)} images but {len(labels)} labels")
    require(len(labels), f"{where} holds no images")
    require(int(labels.max()) < CLASSES, f"{where} has label {labels.max()}: labels are 0 to {CLASSES - 1}")
    return np.ascontiguousarray(pixels), labels


def damaged(path: Path, why: object) -> FedsweError:
    reason = " ".join(str(why).split()) or type(why).__name__
    return FedsweError(f"{path} cannot be read ({reason}): it is truncated or damaged, fetch it again")
