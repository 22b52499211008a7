"""Where data sets are searched, and the error message when they are missing."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fedswe.datasets.catalogue import Dataset, Form, OfficialFile
from fedswe.errors import FedsweError

VARIABLE = "FEDSWE_DATA"


def data_folder() -> Path:
    """$FEDSWE_DATA, or the user's cache directory."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("fedswe"))


def folder_of(dataset: Dataset, root: str = "") -> Path:
    """Where the files of a data set are: `root` if given, otherwise its folder in the data folder."""
    return Path(root).expanduser() if root else data_folder() / dataset.name


def found(dataset: Dataset, folder: Path) -> Form | None:
    """The first complete form; unpacked folders are preferred to archives."""
    there = [form for form in dataset.forms if all((folder / name).exists() for name in form.names)]
    return max(there, key=lambda form: len(form.names), default=None)


def missing(dataset: Dataset, folder: Path) -> FedsweError:
    """An error that names the missing files, their sizes and checksums, and the folder for them."""

    def absent(form: Form) -> int:
        return sum(not (folder / name).exists() for name in form.names)

    begun = [form for form in dataset.forms if absent(form) < len(form.names)]
    form = min(begun, key=absent) if begun else dataset.forms[0]
    wanted = [*(described(f) for f in form.files), *form.folders]
    needed = [text for name, text in zip(form.names, wanted, strict=True) if not (folder / name).exists()]
    others = [] if begun else [f"or {f.called}" for f in dataset.forms if f is not form]
    state = "incomplete" if begun else "not"
    return FedsweError(
        f"{dataset.name} is {state} in {folder}: run `fedswe data fetch {dataset.name}`, or put there "
        f"{', '.join([*needed, *others])}; task.root=PATH or ${VARIABLE} name another folder"
    )


def described(file: OfficialFile) -> str:
    return f"{file.name} ({file.size:,} bytes, md5 {file.md5})"


def md5_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def unofficial(form: Form, folder: Path) -> list[str]:
    """The files whose checksum is not the official one."""
    return [file.name for file in form.files if md5_of(folder / file.name) != file.md5]
