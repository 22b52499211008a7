"""Tiny data sets in the genuine formats, as the publishers wrote them."""

import gzip
import io
import struct
import tarfile

import numpy as np
from PIL import Image
from scipy.io import savemat

from fedswe.datasets.readers import CINIC_CLASSES


def pixels(seed, n, channels=3, side=32):
    return np.random.default_rng(seed).integers(0, 256, (n, channels, side, side), dtype=np.uint8)


def labels(seed, n):
    return np.concatenate([np.arange(10), np.random.default_rng(seed + 100).integers(0, 10, n - 10)]).astype(np.uint8)


def split(seed, n, channels=3, side=32):
    return pixels(seed, n, channels, side), labels(seed, n)


def svhn(folder, n=(30, 20)):
    folder.mkdir(parents=True, exist_ok=True)
    splits = [split(s, k) for s, k in enumerate(n)]
    for name, (x, y) in zip(("train", "test"), splits, strict=True):
        digits = np.where(y == 0, 10, y).astype(np.uint8)[:, None]
        savemat(folder / f"{name}_32x32.mat", {"X": x.transpose(2, 3, 1, 0), "y": digits}, do_compression=True)
    return splits


def cifar_batches(n=20):
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {name: split(seed, n) for seed, name in enumerate(names)}


def cifar_binary(x, y):
    return np.concatenate([y[:, None], x.reshape(len(x), -1)], axis=1).tobytes()


def cifar(folder, packed, batches=None):
    """The batches in their archive or unpacked."""
    batches, inner = batches or cifar_batches(), "cifar-10-batches-bin"
    files = {f"{inner}/{name}.bin": cifar_binary(*batch) for name, batch in batches.items()}
    place(folder, {**files, f"{inner}/readme.html": b"<html>"}, "cifar-10-binary.tar.gz" if packed else None)
    return batches


def place(folder, files, archive):
    """Write the files, name -> content, into the folder or into an archive there."""
    folder.mkdir(parents=True, exist_ok=True)
    if archive is None:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return
    with tarfile.open(folder / archive, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def png(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


def cinic(folder, packed=False, per_class=2):
    """train, valid and test with `per_class` images each, one of them grey; returns split -> class -> images."""
    images, files = {}, {}
    for s, name in enumerate(("train", "valid", "test")):
        for c, kind in enumerate(CINIC_CLASSES):
            these = pixels(100 * s + c, per_class).transpose(0, 2, 3, 1).copy()
            these[0] = these[0, :, :, :1]
            images[name, kind] = these
            for i, image in enumerate(these):
                files[f"./{name}/{kind}/n{9 - i}.png"] = png(image[:, :, 0] if i == 0 else image)
    place(folder, dict(sorted(files.items(), reverse=True)), "CINIC-10.tar.gz" if packed else None)
    return images


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def fashion(folder, n=(40, 20)):
    folder.mkdir(parents=True, exist_ok=True)
    splits = [split(s, k, 1, 28) for s, k in enumerate(n)]
    for name, (x, y) in zip(("train", "t10k"), splits, strict=True):
        for kind, array in (("images-idx3", x[:, 0]), ("labels-idx1", y)):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
    return splits
