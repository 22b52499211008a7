"""Versions, commit and machine that a result was measured with."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

import fedswe


def provenance(recorded: Mapping[str, object] | None = None, threads: int = 0) -> dict[str, object]:
    """What run.json says; `recorded` are the digests of the user's own files, `threads` those of the run."""
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_initialized() else {}  # type: ignore[no-untyped-call]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {"fedswe": fedswe.__version__, "torch": version("torch"), "numpy": version("numpy")},
        **(recorded or {}),
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count(), **gpu},
        "threads": threads or torch.get_num_threads(),
    }


def commit() -> str:
    """The commit of the source tree, with a mark when it has changes; $FEDSWE_COMMIT where there is no repository."""
    git = ["git", "-C", str(Path(__file__).resolve().parent)]
    tracked = [*git, "ls-files", "--error-unmatch", __file__]
    named = [*git, "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"]
    try:
        for command in (tracked, named):
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("FEDSWE_COMMIT", "unknown")


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
