"""CINIC-10's folders split/class/*.png, in the archive or unpacked; its split `valid` is not used."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from fedswe.datasets.images import Images, Pixels, checked, damaged
from fedswe.errors import FedsweError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SPLITS = ("train", "test")
ARCHIVE = "CINIC-10.tar.gz"
_SIDE = 32

Entry = tuple[str, str, str, Pixels]  # split, class, file name, pixels


def read_folders(folder: Path) -> Images:
    return _gathered(_unpacked(folder), folder)


def read_archive(folder: Path) -> Images:
    return _gathered(_packed(folder / ARCHIVE), folder / ARCHIVE)


def _unpacked(folder: Path) -> Iterator[Entry]:
    for split in SPLITS:
        for kind in CLASSES:
            for path in (folder / split / kind).glob("*.png"):
                yield split, kind, path.name, _pixels(path, path)


def _packed(archive: Path) -> Iterator[Entry]:
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                *_, split, kind, name = ("", "", *Path(member.name).parts)
                file = tar.extractfile(member) if split in SPLITS and name.endswith(".png") else None
                if file is not None:
                    yield split, kind, name, _pixels(io.BytesIO(file.read()), archive / member.name)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise damaged(archive, error) from None


def _pixels(source: Path | IO[bytes], where: Path) -> Pixels:
    from PIL import Image

    try:
        with Image.open(source) as image:
            pixels = np.asarray(image.convert("RGB"))  # some of the images are grey
    except (OSError, SyntaxError, ValueError) as error:  # PIL reports some broken files as SyntaxError
        raise damaged(where, error) from None
    if pixels.shape != (_SIDE, _SIDE, 3):
        raise damaged(where, f"{pixels.shape[1]}x{pixels.shape[0]} pixels, not {_SIDE}x{_SIDE}")
    return pixels


def _gathered(entries: Iterator[Entry], where: Path) -> Images:
    """In the order of torchvision's ImageFolder: by class, then by file name."""
    found: dict[tuple[str, str], list[tuple[str, Pixels]]] = {(s, c): [] for s in SPLITS for c in CLASSES}
    for split, kind, name, pixels in entries:
        if (split, kind) not in found:
            raise FedsweError(f"{where} has an unknown class {split}/{kind}: its classes are {', '.join(CLASSES)}")
        found[split, kind].append((name, pixels))
    empty = [f"{split}/{kind}" for (split, kind), members in found.items() if not members]
    if empty:
        raise FedsweError(f"{where} has no images in {empty[0]}: unpack the archive again")
    arrays: list[Pixels] = []
    for split in SPLITS:
        groups = [sorted(found[split, kind], key=lambda member: member[0]) for kind in CLASSES]
        pixels = np.stack([p for group in groups for _, p in group]).transpose(0, 3, 1, 2)
        labels = np.repeat(np.arange(len(CLASSES), dtype=np.uint8), [len(group) for group in groups])
        arrays += checked(pixels, labels, where)
    return Images(*arrays)
