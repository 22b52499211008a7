"""The command `fedswe doctor`: what this machine has, and what to do about what is missing or broken."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import typer
from packaging.requirements import Requirement

from fedswe import __version__
from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json
from fedswe.errors import FedsweError, first_line, printable

Check = dict[str, str]


def _check(name: str, found: str, fix: str = "", needed: bool = False) -> Check:
    """Without a fix it is ok; what is not needed is a note."""
    return {"status": ("broken" if needed else "note") if fix else "ok", "name": name, "found": found, "fix": fix}


def doctor_command(as_json: Json = False) -> None:
    """Say what this machine has: versions, devices, data, folders, optional packages; and how to fix what is broken."""
    checks = list(_checks())
    broken = sum(check["status"] == "broken" for check in checks)
    if as_json:
        print_json({"ok": not broken, "checks": checks})
    else:
        for check in checks:
            line = f"{check['status']:<8}{check['name']:<25}{check['found']}"
            console.print(line + (f" -> {check['fix']}" if check["fix"] else ""))
        console.print(f"{broken} broken: follow the arrows" if broken else "nothing that is needed is broken")
    if broken:
        raise typer.Exit(1)


def _checks() -> Iterator[Check]:
    yield _check("fedswe", f"{__version__} in {Path(__file__).resolve().parents[1]}")
    yield _check("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from _packages()
    yield from _devices()
    try:
        yield from _folders_and_data()
    except FedsweError as error:  # an extra is not installed
        yield _check("data", "not looked for", str(error))


def _packages() -> Iterator[Check]:
    for package in map(Requirement, requires("fedswe") or []):
        extra = str(package.marker).rpartition("extra == ")[2].strip("\"'") if package.marker else ""
        try:
            found = version(package.name)
            suits = package.specifier.contains(found, prereleases=True)
            found += "" if suits else f", {package.specifier} is wanted"
        except PackageNotFoundError:
            found, suits = f"not installed, {package.specifier} is wanted", False
        fix = "" if suits else f"pip install '{package.name}{package.specifier}'"
        yield _check(f"{package.name} ({extra})" if extra else package.name, found, fix, needed=not extra)


def _devices() -> Iterator[Check]:
    try:
        import torch

        gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    except Exception as error:  # a damaged installation may raise anything
        found = f"cannot be used: {printable(first_line(error))}"
        yield _check("torch", found, "pip install --force-reinstall torch", needed=True)
        return
    yield _check("cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads of torch")
    for number, gpu in enumerate(gpus):
        yield _check(f"cuda:{number}", f"{gpu.name}, {gpu.total_memory / 1e9:.0f} GB")
    if not gpus:
        fix = "if there is one, install a torch for its driver: https://pytorch.org/get-started"
        yield _check("gpu", "none that torch can use; runs use the CPU", fix)


def _folders_and_data() -> Iterator[Check]:
    from fedswe.datasets.catalogue import DATASETS, data_folder
    from fedswe.gym.settings import TRACES, trace_files

    for name, folder, choose in (("runs", Path("runs"), "--out"), ("data folder", data_folder(), "FEDSWE_DATA")):
        place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        writable = place.is_dir() and os.access(place, os.W_OK)
        fix = "" if writable else f"it cannot be written: choose another folder with {choose}"
        yield _check(name, str(folder), fix, needed=True)
    for name, dataset in DATASETS.items():
        missing = dataset.found(place := dataset.folder()) is None
        yield _check(f"data {name}", str(place), f"not there: fedswe data fetch {name}" if missing else "")
    for name, file in trace_files().items():
        fix = f"not there: set {TRACES} to its folder (docs/which-rule.md); some gym settings need it"
        yield _check(f"trace {name}", str(file), "" if file.is_file() else fix)
