"""Downloads the official files; a file with another checksum is refused, and no partial file is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from fedswe.datasets.catalogue import Dataset, OfficialFile, md5_of
from fedswe.errors import FedsweError, needed


def fetch(dataset: Dataset, folder: Path, mirror: str = "", say: Callable[[str], object] = str) -> None:
    """Download the official files; files that exist with the right checksum are kept.

    `mirror` is another address with files of the same names; `say` is told of each download.
    """
    for file in dataset.files:
        path = folder / file.name
        if not (path.is_file() and md5_of(path) == file.md5):
            address = f"{(mirror or dataset.address).rstrip('/')}/{file.name}"
            say(f"fetching  {address}, {file.size / 1e6:,.0f} MB")
            _download(file, address, folder)


def _download(file: OfficialFile, address: str, folder: Path) -> None:
    pooch, requests = needed("pooch", "data"), needed("requests", "data")

    pooch.get_logger().setLevel(logging.ERROR)
    try:
        pooch.retrieve(address, f"md5:{file.md5}", file.name, folder)
    except requests.RequestException as error:
        answer = error.response
        reason = type(error).__name__ if answer is None else f"{answer.status_code} {answer.reason}"
        raise FedsweError(f"cannot download {address} ({reason}): try again, or put {file} into {folder}") from None
    except ValueError:  # how pooch reports a wrong checksum
        raise FedsweError(f"{address} is not the official {file}: nothing was kept") from None
    except OSError as error:
        raise FedsweError(f"cannot write to {folder}: {error.strerror or error}") from None
