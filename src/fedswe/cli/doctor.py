"""The command `fedswe doctor`: what this machine has, and what to do about what is missing or broken.

Packages are imported in other processes, so that one that is broken, or ends its process, is a line of the report.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.metadata import metadata as metadata_of
from pathlib import Path
from typing import Any, Literal

import typer

from fedswe import __version__
from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json
from fedswe.errors import FedsweError, first_line, printable

_MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "mlflow-skinny": "mlflow"}  # by package, where it differs
_IMPORT_SECONDS = 120.0  # for all packages of a process
_LEAST_DISK = 10**9  # bytes; less is said
_NO_DISK = 10**7  # bytes; less is too little for any run

# Prints a line of JSON for each module that it imports: the reason why it cannot be, or null.
_IMPORTS = """
import importlib, json, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        reason = None
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}"
    print(json.dumps([name, reason]), flush=True)
"""
_DEVICES = """
import json, torch
gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
found = {"threads": torch.get_num_threads(), "gpus": [[gpu.name, gpu.total_memory] for gpu in gpus]}
print(json.dumps(found), flush=True)
"""


@dataclass(frozen=True)
class Check:
    name: str
    status: Literal["ok", "note", "broken"]  # a note: something that is not needed is missing
    found: str
    fix: str = ""


def doctor_command(as_json: Json = False) -> None:
    """Say what this machine has: versions, devices, data, disk, optional packages; and how to fix what is broken."""
    checks = []
    for check in _checks():
        checks.append(check)
        if not as_json:
            console.print(f"{check.status:<8}{check.name:<25}{check.found}")
            if check.fix:
                console.print(f"{'':<8}{'':<25}-> {check.fix}")
    broken = sum(check.status == "broken" for check in checks)
    if as_json:
        print_json({"ok": not broken, "checks": [asdict(check) for check in checks]})
    else:
        console.print(f"{broken} broken: follow the arrows" if broken else "nothing that is needed is broken")
    if broken:
        raise typer.Exit(1)


def _checks() -> Iterator[Check]:
    required, extras = _requirements()
    devices = _process(_DEVICES)
    needed = _Imports([_module(line) for line in required])
    optional = _Imports([_module(line) for lines in extras.values() for line in lines if _installed(line)])
    yield Check("fedswe", "ok", f"{__version__} in {Path(__file__).resolve().parents[1]}")
    yield _python()
    yield from _disk()
    yield from _data()
    yield _traces()
    yield from _devices(devices)
    yield _required(required, needed.failures())
    failures = optional.failures()
    for extra, lines in extras.items():
        yield _extra(extra, lines, failures)
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    missing = "not found; the proxy of a deployment needs it"
    yield Check("nginx", "ok", nginx) if nginx else Check("nginx", "note", missing, "apt-get install nginx-light")
    yield from _plug_ins()


# this machine ------------------------------------------------------------------------------------------------
def _python() -> Check:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if os.name != "posix":
        return Check("python", "broken", found, "use Linux, macOS or the Windows subsystem for Linux")
    return Check("python", "ok", found)


def _disk() -> Iterator[Check]:
    from fedswe.datasets.locate import data_folder

    for name, folder, choose in (("runs", Path("runs"), "--out"), ("data folder", data_folder(), "FEDSWE_DATA")):
        place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        try:
            free = shutil.disk_usage(place).free
        except OSError as error:
            yield Check(name, "broken", f"{folder}: {first_line(error)}", f"choose another folder with {choose}")
            continue
        found = f"{folder}: {free / 1e9:,.1f} GB free"
        if not place.is_dir() or not os.access(place, os.W_OK):
            yield Check(name, "broken", f"{folder}: cannot be written", f"choose another folder with {choose}")
        elif free < _LEAST_DISK:
            status: Literal["note", "broken"] = "broken" if free < _NO_DISK else "note"
            yield Check(name, status, found, f"free some space, or choose another disk with {choose}")
        else:
            yield Check(name, "ok", found)


def _data() -> Iterator[Check]:
    from fedswe.datasets.catalogue import DATASETS
    from fedswe.datasets.locate import folder_of, found

    yield Check("data digits", "ok", "part of scikit-learn")
    for name, dataset in DATASETS.items():
        folder = folder_of(dataset)
        form = found(dataset, folder)
        if form is None:
            yield Check(f"data {name}", "note", f"not in {folder}", f"fedswe data fetch {name}")
        else:
            yield Check(f"data {name}", "ok", f"{form.called} in {folder}")


def _traces() -> Check:
    from fedswe.gym.settings import TRACES, trace_files

    there = {name: file.is_file() for name, file in trace_files().items()}
    folder = next(iter(trace_files().values())).parent
    found = ", ".join(name for name, is_there in there.items() if is_there) or "none"
    if all(there.values()):
        return Check("traces", "ok", f"{found} in {folder}")
    fix = f"set {TRACES} to the folder that has them (docs/gym.md); only some settings of the gym need them"
    return Check("traces", "note", f"{found} of {', '.join(there)} in {folder}", fix)


def _devices(process: subprocess.Popen[str]) -> Iterator[Check]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    output, error = _ended(process)
    try:
        found: dict[str, Any] = json.loads(output)
    except ValueError:
        reason = printable((error.strip().splitlines() or [f"it ended with code {process.returncode}"])[-1])
        yield Check("torch", "broken", f"cannot be used: {reason}", "pip install --force-reinstall torch")
        return
    named = ", ".join(f"{key}={os.environ[key]}" for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if key in os.environ)
    text = f"{cores} cores, threads of torch: {found['threads']}{f' ({named})' if named else ''}, {memory / 1e9:.0f} GB"
    if cores > 1 and found["threads"] < cores:
        yield Check("cpu", "note", text, "unset OMP_NUM_THREADS, or set threads, to let large models use all cores")
    else:
        yield Check("cpu", "ok", text)
    for number, (name, size) in enumerate(found["gpus"]):
        yield Check(f"cuda:{number}", "ok", f"{name}, {size / 1e9:.0f} GB")
    if not found["gpus"]:
        has_driver = shutil.which("nvidia-smi") is not None
        fix = "install a torch for your driver: https://pytorch.org/get-started" if has_driver else ""
        yield Check("gpu", "note", "none that torch can use; runs use the CPU", fix)


# packages ----------------------------------------------------------------------------------------------------
def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """What fedswe requires, and what each of its extras does, as `name<2,>=1`; of the installed version."""
    try:
        lines = requires("fedswe") or []
        extras: dict[str, list[str]] = {name: [] for name in metadata_of("fedswe").get_all("Provides-Extra") or []}
    except PackageNotFoundError:
        raise FedsweError("fedswe is not installed, only its source is there: pip install -e .") from None
    required = []
    for line in lines:
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        if "extra ==" in marker:
            extras.setdefault(marker.rpartition("extra ==")[2].strip(" '\")"), []).append(requirement)
        else:
            required.append(requirement)
    return required, extras


def _name(requirement: str) -> str:
    from packaging.requirements import Requirement

    return Requirement(requirement).name


def _module(requirement: str) -> str:
    return _MODULES.get(_name(requirement), _name(requirement).replace("-", "_"))


def _installed(requirement: str) -> str:
    """The installed version of a package; empty if there is none, or its metadata are damaged."""
    try:
        return version(_name(requirement)) or ""
    except Exception:  # whatever damaged metadata raise
        return ""


def _suits(requirement: str) -> bool:
    from packaging.requirements import Requirement

    try:
        return Requirement(requirement).specifier.contains(_installed(requirement), prereleases=True)
    except ValueError:  # a version that is none
        return False


def _required(lines: list[str], failures: dict[str, str]) -> Check:
    wrong = [line for line in lines if not _suits(line) or _module(line) in failures]
    if not wrong:
        shown = (f"{_name(line)} {_installed(line)}" for line in lines)
        return Check("packages", "ok", ", ".join(shown))
    found = ", ".join(_described(line, failures) for line in wrong)
    return Check("packages", "broken", found, f"pip install --force-reinstall {_quoted(wrong)}")


def _extra(extra: str, lines: list[str], failures: dict[str, str]) -> Check:
    name, wrong = f"extra {extra}", [line for line in lines if not _suits(line) or _module(line) in failures]
    if not wrong:
        return Check(name, "ok", ", ".join(dict.fromkeys(f"{_name(line)} {_installed(line)}" for line in lines)))
    found = ", ".join(dict.fromkeys(_described(line, failures) for line in wrong))
    repair = any(_installed(line) for line in wrong)
    fix = f"pip install --force-reinstall {_quoted(wrong)}" if repair else f"pip install 'fedswe[{extra}]'"
    return Check(name, "note", found, fix)


def _described(line: str, failures: dict[str, str]) -> str:
    if not _installed(line):
        return f"{_name(line)} is not installed"
    if not _suits(line):
        return f"{_name(line)} is {_installed(line)}, not {line.removeprefix(_name(line))}"
    return f"{_name(line)} cannot be imported ({failures[_module(line)]})"


def _quoted(lines: list[str]) -> str:
    return " ".join(f"'{line}'" for line in dict.fromkeys(lines))


def _process(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=_IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return output, f"it did not end within {_IMPORT_SECONDS:g} s"


class _Imports:
    """Modules that another process imports while this one goes on."""

    def __init__(self, modules: list[str]) -> None:
        self._modules = list(dict.fromkeys(modules))
        self._process = _process(_IMPORTS, *self._modules)

    def failures(self) -> dict[str, str]:
        """Why a module cannot be imported, in one line, by its name."""
        output, error = _ended(self._process)
        found: dict[str, str | None] = {}
        for line in output.splitlines():
            try:
                name, reason = json.loads(line)
                found[name] = reason
            except (TypeError, ValueError):  # a module has printed something
                continue
        left = [name for name in self._modules if name not in found]
        failed = {name: printable(reason.strip().partition("\n")[0]) for name, reason in found.items() if reason}
        if left:  # the first of them has ended the process
            last = (error.strip().splitlines() or [f"the process ended with code {self._process.returncode}"])[-1]
            failed[left[0]] = printable(last)
            failed |= _Imports(left[1:]).failures() if left[1:] else {}
        return failed


def _plug_ins() -> Iterator[Check]:
    """Parts that other packages publish and that cannot be used."""
    from fedswe import registry
    from fedswe.kinds import KINDS

    for kind in KINDS:
        for name, title in registry.titles(kind).items():
            if name not in KINDS[kind].builtin:
                broken = title.startswith("cannot be used")
                fix = "repair or uninstall its package" if broken else ""
                yield Check(f"{kind} {name}", "note" if broken else "ok", printable(title), fix)
