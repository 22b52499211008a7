"""The official files: names, sizes, published checksums and addresses, and where they are searched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedswe.datasets import readers
from fedswe.datasets.readers import Images
from fedswe.errors import needed, require

VARIABLE = "FEDSWE_DATA"


@dataclass(frozen=True)
class OfficialFile:
    name: str  # path under the folder of the data set
    size: int
    md5: str

    def __str__(self) -> str:
        return f"{self.name} ({self.size:,} bytes, md5 {self.md5})"


@dataclass(frozen=True)
class Dataset:
    """A data set, read from the official files, or from folders that were unpacked from them."""

    name: str
    title: str
    read: Callable[[Path], Images]
    address: str  # of the folder with the official files
    files: tuple[OfficialFile, ...]
    mean: tuple[float, ...]  # of the training pixels per channel, in [0, 1], as the released code has them
    std: tuple[float, ...]
    unpacked: tuple[str, ...] = ()  # folders, which have no published checksums

    def folder(self, root: str = "") -> Path:
        """Where its files are: `root` if given, otherwise its folder in the data folder."""
        return Path(root).expanduser() if root else data_folder() / self.name

    def found(self, folder: Path) -> tuple[str, ...]:
        """The files or else the unpacked folders that are read there; none if neither are complete."""
        files = tuple(file.name for file in self.files)
        return next((names for names in (files, self.unpacked) if all((folder / n).exists() for n in names)), ())

    def present(self, folder: Path) -> tuple[str, ...]:
        """What is found, or an error that names the missing files and the folder for them."""
        missing = [str(file) for file in self.files if not (folder / file.name).exists()]
        other = f" (or {' and '.join(self.unpacked)}, unpacked)" if self.unpacked else ""
        found = self.found(folder)
        require(
            found,
            f"{self.name} is not in {folder} as a whole: run `fedswe data fetch {self.name}`, or put there "
            f"{', '.join(missing)}{other}; task.root=PATH or ${VARIABLE} name another folder",
        )
        return found


def data_folder() -> Path:
    """$FEDSWE_DATA, or the user's cache directory."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(needed("platformdirs", "data").user_cache_dir("fedswe"))


def md5_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


_SVHN = Dataset(
    "svhn",
    "SVHN, cropped digits 32x32: 73,257 for training, 26,032 for testing",
    readers.svhn,
    "http://ufldl.stanford.edu/housenumbers",
    (
        OfficialFile("train_32x32.mat", 182040794, "e26dedcc434d2e4c54c9b2d4a06d8373"),
        OfficialFile("test_32x32.mat", 64275384, "eb5a983be6a315427106f1b164d9cef3"),
    ),
    (0.4376821, 0.4437697, 0.47280442),
    (0.19803012, 0.20101562, 0.19703614),
)
_CIFAR10 = Dataset(
    "cifar10",
    "CIFAR-10, colour images 32x32: 50,000 for training, 10,000 for testing",
    readers.cifar10,
    "https://www.cs.toronto.edu/~kriz",
    (OfficialFile("cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530"),),
    (0.4914, 0.4822, 0.4465),
    (0.2023, 0.1994, 0.2010),
    ("cifar-10-batches-bin",),
)
_CINIC10 = Dataset(
    "cinic10",
    "CINIC-10, colour images 32x32: 90,000 for training, 90,000 for testing",
    readers.cinic10,
    "https://datashare.ed.ac.uk/bitstream/handle/10283/3192",
    (OfficialFile("CINIC-10.tar.gz", 687544992, "6ee4d0c996905fe93221de577967a372"),),
    (0.47889522, 0.47227842, 0.43047404),
    (0.24205776, 0.23828046, 0.25874835),
    readers.CINIC_SPLITS,
)
_FASHION_MNIST = Dataset(
    "fashion_mnist",
    "Fashion-MNIST, grey images 28x28: 60,000 for training, 10,000 for testing",
    readers.fashion_mnist,
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    (
        OfficialFile("train-images-idx3-ubyte.gz", 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        OfficialFile("train-labels-idx1-ubyte.gz", 29515, "25c81989df183df01b3e8a0aad5dffbe"),
        OfficialFile("t10k-images-idx3-ubyte.gz", 4422102, "bef4ecab320f06d8554ea6380940ec79"),
        OfficialFile("t10k-labels-idx1-ubyte.gz", 5148, "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    (0.2860,),
    (0.3530,),
)

DATASETS = {"svhn": _SVHN, "cifar10": _CIFAR10, "cinic10": _CINIC10, "fashion_mnist": _FASHION_MNIST}
