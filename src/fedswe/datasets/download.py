"""Downloads the official files; a file with another checksum is refused, and no partial file is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from fedswe.datasets.catalogue import Dataset, OfficialFile, md5_of
from fedswe.errors import FedsweError, needed


def fetch(dataset: Dataset, folder: Path, mirror: str = "", say: Callable[[str], object] = str) -> None:
    """Download the files of the first form; files that exist with the right checksum are kept.

    `mirror` is another address with files of the same names; `say` is told of each download.
    """
    for file in dataset.forms[0].files:
        path = folder / file.name
        if not (path.is_file() and md5_of(path) == file.md5):
            address = f"{mirror.rstrip('/')}/{file.name}" if mirror else file.url
            say(f"fetching  {address}, {file.size / 1e6:,.0f} MB")
            _download(file, address, folder)


def _download(file: OfficialFile, address: str, folder: Path) -> None:
    pooch, requests = needed("pooch", "data"), needed("requests", "data")

    pooch.get_logger().setLevel(logging.ERROR)
    try:
        pooch.retrieve(address, f"md5:{file.md5}", file.name, folder)
    except requests.RequestException as error:
        raise FedsweError(
            f"cannot download {address} ({_reason(error)}): try again, or put {file} into {folder}"
        ) from None
    except ValueError:  # how pooch reports a wrong checksum
        raise FedsweError(f"{address} is not the official {file}: nothing was kept") from None
    except OSError as error:
        raise FedsweError(f"cannot write to {folder}: {error.strerror or error}") from None


def _reason(error: Exception) -> str:
    """A short reason from nested exceptions of urllib3."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"{response.status_code} {response.reason}"
    return {"ConnectTimeout": "timed out", "ReadTimeout": "timed out", "ConnectionError": "no connection"}.get(
        type(error).__name__, type(error).__name__
    )
