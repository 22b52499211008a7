"""fedswe data list, fetch, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from fedswe.datasets import DATASETS, load
from fedswe.datasets.catalogue import Dataset, Form, OfficialFile
from fedswe.datasets.download import fetch
from fedswe.datasets.locate import data_folder, folder_of, found, md5_of, missing
from fedswe.errors import FedsweError

app = typer.Typer(no_args_is_help=True, help="The official files of the data sets: list, fetch, verify.")
_console = Console(highlight=False, soft_wrap=True)

Name = Annotated[str, typer.Argument(help=f"One of {', '.join(DATASETS)}")]
Root = Annotated[str, typer.Option(help="The folder with the files, as in task.root; default: NAME in the data folder")]


@app.command("list")
def list_() -> None:
    """Which data sets there are, and which of them are here."""
    table = Table("name", "what it is", "here", title=f"data sets in {data_folder()}", title_justify="left")
    for name, dataset in DATASETS.items():
        folder = folder_of(dataset)
        form = found(dataset, folder)
        size = sum(file.size for file in dataset.forms[0].files)
        table.add_row(name, dataset.title, _summary(form, folder) if form else f"no; {size / 1e6:,.0f} MB to fetch")
    _console.print(table)


@app.command("fetch")
def fetch_(
    name: Name,
    root: Root = "",
    mirror: Annotated[str, typer.Option(help="Another address that serves the files under their names")] = "",
) -> None:
    """Download the official files, checksums compared."""
    dataset = _named(name)
    folder = folder_of(dataset, root)
    fetch(dataset, folder, mirror, _Bar)
    _console.print(f"{name} is in {folder}, official checksums")


@app.command()
def verify(
    name: Annotated[str, typer.Argument(help="A data set; default: all that are here")] = "", root: Root = ""
) -> None:
    """Compare checksums, decode what is new, count images by class; exit code 1 when a file is not the official one."""
    chosen = [_named(name)] if name else [d for d in DATASETS.values() if found(d, folder_of(d))]
    if root and not name:
        raise FedsweError("--root needs the NAME of one data set")
    if not chosen:
        raise FedsweError(f"no data set is in {data_folder()}: see fedswe data list")
    official = [_verified(dataset, folder_of(dataset, root)) for dataset in chosen]
    if not all(official):
        raise typer.Exit(1)


def _verified(dataset: Dataset, folder: Path) -> bool:
    form = found(dataset, folder)
    if form is None:
        raise missing(dataset, folder)
    wrong = 0
    for file in form.files:
        md5 = md5_of(folder / file.name)
        wrong += md5 != file.md5
        verdict = "official" if md5 == file.md5 else f"NOT the official file: md5 {md5}, official {file.md5}"
        _console.print(f"{dataset.name}  {file.name}  {verdict}", markup=False)
    for part in form.folders:
        _console.print(f"{dataset.name}  {part}/  a folder, without a published checksum", markup=False)
    images = load(dataset, folder)
    for split, labels in (("train", images.y_train), ("test", images.y_test)):
        counts = " ".join(str(n) for n in np.bincount(labels, minlength=10))
        _console.print(f"{dataset.name}  {split}: {len(labels):,} images, by class {counts}", markup=False)
    return not wrong


def _summary(form: Form, folder: Path) -> str:
    size = sum((folder / file.name).stat().st_size for file in form.files)
    return form.called + (f", {size / 1e6:,.0f} MB" if size else "")


def _named(name: str) -> Dataset:
    if name not in DATASETS:
        raise FedsweError(f"unknown data set {name!r}: known are {', '.join(DATASETS)}")
    return DATASETS[name]


class _Bar:
    """A progress bar for pooch, which sets `total` and calls the rest."""

    def __init__(self, file: OfficialFile) -> None:
        self.total = file.size
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, transient=True, console=Console(stderr=True))
        self._task = self._progress.add_task(file.name)
        self._progress.start()

    def update(self, size: int) -> None:
        self._progress.update(self._task, advance=size, total=self.total)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()
