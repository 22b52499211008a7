"""Readers of the official files: SVHN's .mat, CIFAR-10's batches, Fashion-MNIST's idx, CINIC-10's folders of .png."""

from __future__ import annotations

import gzip
import io
import math
import struct
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedswe.errors import mistakes_as, needed, require

Pixels = npt.NDArray[np.uint8]
Split = tuple[Pixels, Pixels]  # images [N, channels, height, width] and labels [N]

CLASSES = 10  # of every data set
CINIC_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CINIC_SPLITS = ("train", "test")  # `valid` is not used
_COLOUR = (3, 32, 32)
_UINT8 = 8  # in an idx file


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels [N, channels, height, width] and labels [N], all uint8."""

    x_train: Pixels
    y_train: Pixels
    x_test: Pixels
    y_test: Pixels


def _split(pixels: Pixels, labels: Pixels, where: Path) -> Split:
    """Refuse different numbers of images and labels, no images, and labels that are no class."""
    require(len(pixels) == len(labels), f"{where} has {len(pixels)} images but {len(labels)} labels")
    require(len(labels), f"{where} holds no images")
    require(int(labels.max()) < CLASSES, f"{where} has label {labels.max()}: labels are 0 to {CLASSES - 1}")
    return np.ascontiguousarray(pixels), labels


def _reading(path: Path) -> AbstractContextManager[None]:
    """Whatever a damaged file makes a parser raise is one line that names the file."""
    return mistakes_as(f"{path} cannot be read", ": it is truncated or damaged, fetch it again")


def _members(place: Path, *patterns: str) -> Iterator[tuple[Path, bytes]]:
    """The files of a folder or of a .tar.gz archive whose paths end like one of the patterns."""
    if place.is_dir():
        yield from ((path, path.read_bytes()) for pattern in patterns for path in place.glob(pattern))
        return
    with _reading(place), tarfile.open(place, "r:gz") as tar:
        for member in tar:
            wanted = any(Path(member.name).match(pattern) for pattern in patterns)
            if wanted and (file := tar.extractfile(member)) is not None:
                yield place / member.name, file.read()


# SVHN: X [32, 32, 3, N] and y [N, 1], where 10 stands for the digit 0 ---------------------------------------------
def svhn(folder: Path) -> Images:
    return Images(*_mat(folder / "train_32x32.mat"), *_mat(folder / "test_32x32.mat"))


def _mat(path: Path) -> Split:
    from scipy.io import loadmat  # slow to import, and needed once per file

    with _reading(path):
        stored = loadmat(path, variable_names=("X", "y"))
        x, y = stored["X"], stored["y"].reshape(-1)
        if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
            raise ValueError(f"X is {x.dtype} {list(x.shape)}, not uint8 [32, 32, 3, N]")
        return _split(x.transpose(3, 2, 0, 1), np.where(y == 10, 0, y).astype(np.uint8), path)


# CIFAR-10: batches of records, each a label and the red, green and blue plane ---------------------------------------
def cifar10(folder: Path) -> Images:
    archive = folder / "cifar-10-binary.tar.gz"
    place = archive if archive.exists() else folder / "cifar-10-batches-bin"
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    found: dict[str, Split] = {}
    for path, raw in _members(place, *names):
        with _reading(path):
            records = np.frombuffer(raw, np.uint8).reshape(-1, 1 + math.prod(_COLOUR))
            found[path.name] = _split(records[:, 1:].reshape(-1, *_COLOUR), records[:, 0], path)
    with _reading(place):
        if missing := [name for name in names if name not in found]:
            raise ValueError(f"no {missing[0]} in it")
    *train, test = (found[name] for name in names)
    x, y = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return Images(x, y, *test)


# Fashion-MNIST: gzipped idx files: 0, 0, type, dimensions, sizes (big-endian), values ---------------------------------
def fashion_mnist(folder: Path) -> Images:
    arrays: list[Pixels] = []
    for split in ("train", "t10k"):
        where = folder / f"{split}-images-idx3-ubyte.gz"
        labels = _idx(folder / f"{split}-labels-idx1-ubyte.gz", 1)
        arrays += _split(_idx(where, 3)[:, None], labels, where)
    return Images(*arrays)


def _idx(path: Path, dimensions: int) -> Pixels:
    with _reading(path):
        raw = gzip.decompress(path.read_bytes())
        start = 4 + 4 * dimensions
        if raw[:4] != bytes([0, 0, _UINT8, dimensions]):
            raise ValueError(f"not an idx file of {dimensions}-dimensional bytes")
        return np.frombuffer(raw, np.uint8, offset=start).reshape(struct.unpack(f">{dimensions}I", raw[4:start]))


# CINIC-10: split/class/*.png ------------------------------------------------------------------------------------
def cinic10(folder: Path) -> Images:
    """In the order of torchvision's ImageFolder: by class, then by file name."""
    archive = folder / "CINIC-10.tar.gz"
    place = archive if archive.exists() else folder
    found: dict[tuple[str, str], list[tuple[str, Pixels]]]
    found = {(split, kind): [] for split in CINIC_SPLITS for kind in CINIC_CLASSES}
    for path, raw in _members(place, *(f"{split}/*/*.png" for split in CINIC_SPLITS)):
        *_, split, kind, name = path.parts
        require((split, kind) in found, f"{path} is of an unknown class: known are {', '.join(CINIC_CLASSES)}")
        found[split, kind].append((name, _png(path, raw)))
    arrays: list[Pixels] = []
    for split in CINIC_SPLITS:
        groups = [sorted(found[split, kind], key=lambda member: member[0]) for kind in CINIC_CLASSES]
        for kind, group in zip(CINIC_CLASSES, groups, strict=True):
            require(group, f"{place} has no images in {split}/{kind}: unpack the archive again")
        pixels = np.stack([image for group in groups for _, image in group]).transpose(0, 3, 1, 2)
        labels = np.repeat(np.arange(CLASSES, dtype=np.uint8), [len(group) for group in groups])
        arrays += _split(pixels, labels, place)
    return Images(*arrays)


def _png(path: Path, raw: bytes) -> Pixels:
    image_module = needed("PIL.Image", "data")
    with _reading(path), image_module.open(io.BytesIO(raw)) as image:
        pixels = np.asarray(image.convert("RGB"))  # some of the images are grey
        if pixels.shape != (32, 32, 3):
            raise ValueError(f"{pixels.shape[1]}x{pixels.shape[0]} pixels, not 32x32")
        return pixels
