"""The command `fedswe doctor`: packages and devices of this machine, and what to do about what is missing or broken."""

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
from fedswe.errors import first_line, printable


def doctor_command(as_json: Json = False) -> None:
    """Say what this machine has: versions, packages, devices; and how to fix what is broken."""
    checks = [dict(zip(("status", "name", "found", "fix"), check, strict=True)) for check in _checks()]
    broken = sum(check["status"] == "broken" for check in checks)
    if as_json:
        print_json({"ok": not broken, "checks": checks})
    else:
        for check in checks:
            line = f"{check['status']:<8}{check['name']:<33}{check['found']}"
            style = {"note": "yellow", "broken": "red"}.get(check["status"])
            console.print(line + (f"\n        -> {check['fix']}" if check["fix"] else ""), style=style)
        last = f"Not ready, {broken} broken: do what the arrows say." if broken else "Ready to run."
        console.print(last, style="bold red" if broken else "bold green")
    raise typer.Exit(bool(broken))


def _checks() -> Iterator[tuple[str, str, str, str]]:
    """Status, name, what was found, and how to fix it."""
    yield "ok", "fedswe", f"{__version__} in {Path(__file__).resolve().parents[1]}", ""
    yield "ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", ""
    packages: dict[str, tuple[Requirement, set[str]]] = {}
    for package in map(Requirement, requires("fedswe") or []):
        extra = str(package.marker).rpartition("extra == ")[2].strip("\"'") if package.marker else ""
        packages.setdefault(f"{package.name}{package.specifier}", (package, set()))[1].add(extra)
    for package, extras in packages.values():
        extra = ", ".join(sorted(extras - {"all"}))
        name = f"{package.name} ({extra})" if extra else package.name
        try:
            found = version(package.name)
        except PackageNotFoundError:
            found = "not installed"
        if found != "not installed" and package.specifier.contains(found, prereleases=True):
            yield "ok", name, found, ""
        else:
            wanted, fix = f"{found}, {package.specifier} is wanted", f"pip install '{package.name}{package.specifier}'"
            yield "note" if extra else "broken", name, wanted, fix
    try:
        import torch

        gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    except Exception as error:  # a damaged installation may raise anything
        found = f"cannot be used: {printable(first_line(error))}"
        yield "broken", "torch", found, "pip install --force-reinstall torch"
        return
    yield "ok", "cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads of torch", ""
    for number, gpu in enumerate(gpus):
        yield "ok", f"cuda:{number}", f"{gpu.name}, {gpu.total_memory / 1e9:.0f} GB", ""
    if not gpus:
        fix = "if there is one, install a torch for its driver: https://pytorch.org/get-started"
        yield "note", "gpu", "none that torch can use; runs use the CPU", fix
