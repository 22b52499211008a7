"""CIFAR-10's binary and python batches, in their archives or unpacked."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedswe.datasets.images import Images, Pixels, checked, damaged
from fedswe.errors import FedsweError

_SHAPE = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32  # a label and the red, green and blue plane

TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = "test_batch"

Parse = Callable[[bytes, Path], tuple[Pixels, Pixels]]


def read_binary(folder: Path) -> Images:
    return _unpacked(folder / "cifar-10-batches-bin", ".bin", parse_binary)


def read_python(folder: Path) -> Images:
    return _unpacked(folder / "cifar-10-batches-py", "", parse_python)


def read_binary_archive(folder: Path) -> Images:
    return _packed(folder / "cifar-10-binary.tar.gz", ".bin", parse_binary)


def read_python_archive(folder: Path) -> Images:
    return _packed(folder / "cifar-10-python.tar.gz", "", parse_python)


def parse_binary(raw: bytes, where: Path) -> tuple[Pixels, Pixels]:
    if len(raw) % _RECORD:
        raise damaged(where, f"{len(raw)} bytes are not a multiple of {_RECORD}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)
    return checked(records[:, 1:].reshape(-1, *_SHAPE), records[:, 0], where)


def parse_python(raw: bytes, where: Path) -> tuple[Pixels, Pixels]:
    try:
        batch = _Arrays(io.BytesIO(raw), encoding="bytes").load()
        pixels = np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, *_SHAPE)
        labels = np.array(batch[b"labels"], dtype=np.uint8)
    except FedsweError:
        raise
    except Exception as error:  # a damaged pickle may fail anywhere
        raise damaged(where, error) from None
    return checked(pixels, labels, where)


class _Arrays(pickle.Unpickler):
    """Unpickles only containers, numbers, bytes and numpy arrays: other pickles can run any code."""

    _ADMITTED = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),  # how the official files store bytes
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ADMITTED:
            raise FedsweError(f"a CIFAR-10 batch asks for {module}.{name}, which no official file does: it is refused")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _unpacked(folder: Path, suffix: str, parse: Parse) -> Images:
    def batch(name: str) -> tuple[Pixels, Pixels]:
        path = folder / (name + suffix)
        return parse(path.read_bytes(), path)

    return _joined(batch)


def _packed(archive: Path, suffix: str, parse: Parse) -> Images:
    wanted = {name + suffix for name in (*TRAIN, TEST)}
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None and Path(member.name).name in wanted:
                    found[Path(member.name).name] = file.read()
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise damaged(archive, error) from None
    missing = sorted(wanted - found.keys())
    if missing:
        raise damaged(archive, f"no {missing[0]} in it")
    return _joined(lambda name: parse(found[name + suffix], archive / (name + suffix)))


def _joined(batch: Callable[[str], tuple[Pixels, Pixels]]) -> Images:
    pixels, labels = zip(*(batch(name) for name in TRAIN), strict=True)
    return Images(np.concatenate(pixels), np.concatenate(labels), *batch(TEST))
