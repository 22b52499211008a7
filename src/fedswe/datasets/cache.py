"""Cache of decoded data sets: memory-mapped .npy files, written again when the source files change."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedswe.datasets.catalogue import Dataset, data_folder, md5_of
from fedswe.datasets.readers import Images

_LAYOUT = 1  # increased when the format of the cache changes
_ARRAYS = tuple(Images.__annotations__)
_log = logging.getLogger("fedswe")


def load(dataset: Dataset, folder: Path) -> Images:
    """The arrays of the data set whose files are in `folder`; the same object as long as the files do not change."""
    names = dataset.present(folder)
    return _load(dataset, names, folder.resolve(), _fingerprint(names, folder), data_folder() / "decoded")


@lru_cache(maxsize=4)
def _load(dataset: Dataset, names: tuple[str, ...], folder: Path, fingerprint: str, store: Path) -> Images:
    source = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    place = store / f"{dataset.name}-{source}-{fingerprint[:16]}"
    opened = _opened(place)
    if opened is None:
        files = [file for file in dataset.files if file.name in names]
        images, wrong = dataset.read(folder), [file.name for file in files if md5_of(folder / file.name) != file.md5]
        opened = _stored(images, wrong, place, f"{dataset.name}-{source}-*") or (images, wrong)
    images, wrong = opened
    if wrong:
        _log.warning("using %s of %s, not the official checksum, from %s", ", ".join(wrong), dataset.name, folder)
    return images


def _opened(place: Path) -> tuple[Images, list[str]] | None:
    try:
        arrays = [np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS]
        return Images(*arrays), json.loads((place / "unofficial.json").read_text())
    except (OSError, ValueError, EOFError):
        return None


def _stored(images: Images, wrong: list[str], place: Path, older: str) -> tuple[Images, list[str]] | None:
    """Write the arrays to a temporary folder, rename it in one step, then open them."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=place.parent) as temporary:
            aside = Path(temporary) / place.name
            aside.mkdir()
            for name in _ARRAYS:
                np.save(aside / f"{name}.npy", getattr(images, name), allow_pickle=False)
            (aside / "unofficial.json").write_text(json.dumps(wrong))
            for old in place.parent.glob(older):
                if old != place or _opened(old) is None:  # from an earlier version of the source, or damaged
                    shutil.rmtree(old, ignore_errors=True)
            aside.rename(place)
    except OSError as error:
        if not place.is_dir():  # otherwise another process has written it
            _log.warning("cannot keep decoded images in %s (%s): they are decoded again next time", place.parent, error)
    return _opened(place)


def _fingerprint(names: tuple[str, ...], folder: Path) -> str:
    """Digest of the names, sizes and modification times of the source files."""
    found = [os.path.join(folder, name) for name in names if (folder / name).is_file()]
    for name in names:  # of files, there is nothing below
        found += sorted(os.path.join(base, file) for base, _, files in os.walk(folder / name) for file in files)
    digest = hashlib.sha256(f"{_LAYOUT} {names}".encode())
    for path in found:
        status = os.stat(path)
        digest.update(f"{os.path.relpath(path, folder)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
