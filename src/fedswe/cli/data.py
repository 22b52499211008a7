"""fedswe data list, fetch, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np
import typer

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json, print_table
from fedswe.datasets import DATASETS, load
from fedswe.datasets.catalogue import Dataset, data_folder, md5_of
from fedswe.datasets.download import fetch
from fedswe.errors import FedsweError

Root = Annotated[str, typer.Option(help="The folder with the files, as in task.root; default: NAME in the data folder")]
NAMES, KNOWN = click.Choice(tuple(DATASETS)), ", ".join(DATASETS)


def list_command(as_json: Json = False) -> None:
    """List the data sets and say which of them are on this machine."""
    values: list[dict[str, Any]] = []
    for dataset in DATASETS.values():
        found = ", ".join(dataset.found(dataset.folder())) or None
        known = {"name": dataset.name, "title": dataset.title, "folder": str(dataset.folder())}
        size = sum(file.size for file in dataset.files)
        values.append({**known, "found": found, "download_bytes": size})
    if as_json:
        print_json(values)
    else:
        fetch = "no; {:,.0f} MB to fetch"
        rows = [(v["name"], v["title"], v["found"] or fetch.format(v["download_bytes"] / 1e6)) for v in values]
        print_table(f"data sets in {data_folder()}", ("name", "title", "found"), rows)


def fetch_command(
    name: Annotated[str, typer.Argument(click_type=NAMES, metavar="NAME", help=f"One of {KNOWN}")],
    root: Root = "",
    mirror: Annotated[str, typer.Option(help="Another address that serves the files under their names")] = "",
) -> None:
    """Download the official files and compare their checksums."""
    folder = DATASETS[name].folder(root)
    fetch(DATASETS[name], folder, mirror, console.print)
    console.print(f"{name} is in {folder}, official checksums")


def verify_command(
    name: Annotated[
        str | None, typer.Argument(click_type=NAMES, metavar="[NAME]", help="Default: all that are found")
    ] = None,
    root: Root = "",
    as_json: Json = False,
) -> None:
    """Compare checksums, decode new files, count images by class; exit code 1 if a file is not the official one."""
    chosen = [DATASETS[name]] if name else [d for d in DATASETS.values() if d.found(d.folder())]
    if root and not name:
        raise FedsweError("--root needs the NAME of one data set")
    if not chosen:
        raise FedsweError(f"no data set is in {data_folder()}: see fedswe data list")
    results = []
    for dataset in chosen:
        results.append(_verified(dataset, dataset.folder(root)))
        if not as_json:
            _print(results[-1])
    if as_json:
        print_json(results)
    if not all(file["official"] for result in results for file in result["files"]):
        raise typer.Exit(1)


def _verified(dataset: Dataset, folder: Path) -> dict[str, Any]:
    names, files = dataset.present(folder), []
    for file in (file for file in dataset.files if file.name in names):
        md5 = md5_of(folder / file.name)
        files.append({"name": file.name, "md5": md5, "official_md5": file.md5, "official": md5 == file.md5})
    images = load(dataset, folder)
    labels = {"train": images.y_train, "test": images.y_test}
    counts = {split: np.bincount(y, minlength=10).tolist() for split, y in labels.items()}
    folders = [name for name in names if name in dataset.unpacked]
    return {"name": dataset.name, "files": files, "folders": folders, "images_by_class": counts}


def _print(result: dict[str, Any]) -> None:
    name = result["name"]
    for file in result["files"]:
        verdict = f"NOT the official file: md5 {file['md5']}, official {file['official_md5']}"
        console.print(f"{name}  {file['name']}  {'official' if file['official'] else verdict}")
    for folder in result["folders"]:
        console.print(f"{name}  {folder}/  a folder, without a published checksum")
    for split, counts in result["images_by_class"].items():
        console.print(f"{name}  {split}: {sum(counts):,} images, by class {' '.join(map(str, counts))}")
