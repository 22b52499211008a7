"""MNIST's idx files, gzipped or plain: 0, 0, type, dimensions, sizes (big-endian), values."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from fedswe.datasets.images import Images, Pixels, checked, damaged

_UINT8 = 8


def read_idx(folder: Path, suffix: str = "") -> Images:
    """The four files of Fashion-MNIST."""
    arrays: list[Pixels] = []
    for split in ("train", "t10k"):
        where = folder / f"{split}-images-idx3-ubyte{suffix}"
        images = _array(where, 3)[:, None]
        arrays += checked(images, _array(folder / f"{split}-labels-idx1-ubyte{suffix}", 1), where)
    return Images(*arrays)


def read_idx_gz(folder: Path) -> Images:
    return read_idx(folder, ".gz")


def _array(path: Path, dimensions: int) -> Pixels:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, error) from None
    start = 4 + 4 * dimensions
    if len(raw) < start or raw[:4] != bytes([0, 0, _UINT8, dimensions]):
        raise damaged(path, f"not an idx file of {dimensions}-dimensional bytes")
    shape = struct.unpack(f">{dimensions}I", raw[4:start])
    if len(raw) - start != math.prod(shape):
        raise damaged(path, f"{math.prod(shape)} values expected, {len(raw) - start} found")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)
