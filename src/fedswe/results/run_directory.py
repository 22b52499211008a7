"""A run directory: configuration, provenance, history, trajectory, checkpoint, final models.

config.toml              the resolved configuration; `fedswe run config.toml` runs it again
run.json                 versions, commit, machine
history.csv              one row per evaluation
trajectory.csv           the server model after every round, if asked for: round,x0,x1,..., row 0 is the start
reported.txt             which clients reported in every round, of at most 2,000 clients: the number of clients in a
                         line, then a line per round with a bit per client in hexadecimal digits
checkpoint.safetensors   while the run is unfinished: all state after some round
model.safetensors        the evaluated models at the end (model_file.py); written last, so its presence means finished
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors
import torch

from fedswe.errors import FedsweError, require
from fedswe.results.files import Claim, Lines, cannot_write, write_whole
from fedswe.results.history import History, Tally
from fedswe.results.model_file import Models, to_bytes

_MOST = 2000  # clients in reported.txt; of more nothing is recorded, since nobody looks at a million of them one by one


@dataclass(frozen=True)
class Checkpoint:
    config: str  # of the run that wrote it
    round: int
    seconds: float
    history_bytes: int  # of history.csv
    tally: Tally
    trajectory_bytes: int
    tensors: dict[str, torch.Tensor]


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._history_file = path / "history.csv"
        self._made = False

    # beginning -----------------------------------------------------------------------------------------
    def create(self, config: str, provenance: dict[str, object]) -> None:
        """Start a new run here; refuses a folder that is not empty."""
        path, self._made = self.path, not self.path.is_dir()
        if not self._made and any(not p.name.endswith(".part") for p in path.iterdir()):
            raise FedsweError(f"{path} is not empty: continue a run with --resume {path}, or choose another out=")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from None
        try:
            # The configuration first: from then on the run can be resumed.
            write_whole(self.path / "config.toml", config)
            self.note(provenance)
        except FedsweError:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove a run that failed at its start, and its folder if it was made for it."""
        for name in ("config.toml", "run.json", "history.csv", "trajectory.csv", "reported.txt", ".lock"):
            (self.path / name).unlink(missing_ok=True)
        if self._made:
            with suppress(OSError):  # somebody else put a file there
                self.path.rmdir()

    def note(self, provenance: dict[str, object]) -> None:
        """Write run.json, unless it is there."""
        if not (self.path / "run.json").exists():
            write_whole(self.path / "run.json", json.dumps(provenance, indent=2) + "\n")

    def config(self) -> str:
        try:
            return (self.path / "config.toml").read_text(encoding="utf-8")
        except OSError:
            raise FedsweError(f"{self.path} holds no run (no config.toml): nothing to resume or to load") from None
        except UnicodeDecodeError:
            raise FedsweError(f"{self.path}/config.toml is damaged (not UTF-8 text): nothing to resume") from None

    def recorded(self) -> dict[str, dict[str, str]]:
        """The digests of the user's own files when the run was started: `sources` and `files`."""
        try:
            noted = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
            found = {key: noted.get(key) for key in ("sources", "files")}
        except FileNotFoundError:  # stopped before it was written
            return {}
        except (OSError, ValueError, AttributeError):
            raise FedsweError(f"{self.path}/run.json is damaged: delete it to continue without its records") from None
        return {key: digests for key, digests in found.items() if isinstance(digests, dict)}

    @property
    def finished(self) -> bool:
        return (self.path / "model.safetensors").is_file()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Refuse a run that another process is running: the two would overwrite each other's files."""
        claim = Claim(self.path / ".lock")
        try:
            require(claim.granted, f"{self.path} is in use by another process: wait for it, or stop it")
            yield
        finally:
            claim.release()

    # during --------------------------------------------------------------------------------------------
    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        values = {**vars(checkpoint), "tally": asdict(checkpoint.tally)}
        tensors, config = values.pop("tensors"), values.pop("config")
        notes = {"config": config, **{name: json.dumps(value) for name, value in values.items()}}
        write_whole(self.path / "checkpoint.safetensors", to_bytes(tensors, notes))

    def sweep(self) -> None:
        """Remove incomplete files of a killed process."""
        for leftover in self.path.glob(".*.part"):
            leftover.unlink()

    def load_checkpoint(self) -> Checkpoint | None:
        """The last checkpoint, or None when the run was stopped before its first."""
        path = self.path / "checkpoint.safetensors"
        if not path.is_file():
            return None
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                notes = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            values = {name: text if name == "config" else json.loads(text) for name, text in notes.items()}
            sizes = (values[name] for name in ("round", "history_bytes", "trajectory_bytes"))
            if not all(type(size) is int and size >= 0 for size in sizes) or type(values["seconds"]) is not float:
                raise ValueError("no number")
            return Checkpoint(**{**values, "tally": Tally(**values["tally"]), "tensors": tensors})
        except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError):
            raise FedsweError(f"{path} is damaged: delete it to start this run over with --resume") from None

    # end -----------------------------------------------------------------------------------------------
    def finish(self, models: bytes) -> None:
        """Mark the run as finished; `models` is the content of model.safetensors."""
        write_whole(self.path / "model.safetensors", models)
        (self.path / "checkpoint.safetensors").unlink(missing_ok=True)

    def models(self) -> Models:
        """The models of a finished run."""
        return Models.read(self.path / "model.safetensors")

    def history(self, size: int | None = None) -> History:
        """All evaluations, or those in the first so many bytes: the ones at a checkpoint."""
        try:
            history = History.from_csv(self._history_file.read_bytes()[:size].decode())
        except (OSError, TypeError, ValueError):
            history = History()
        require(history.rows, f"{self._history_file} is missing or damaged: run the experiment again elsewhere")
        return history


class ReportedLines:
    """reported.txt while a run goes on. Rounds are collected, and written with the next evaluation or checkpoint."""

    def __init__(self, lines: Lines) -> None:
        self._lines, self._waiting = lines, list[str]()

    @classmethod
    def open(cls, directory: Path, m: int, t: int) -> ReportedLines | None:
        """Continue after t rounds; None if there are too many clients, or the rounds before were not recorded."""
        path, title = directory / "reported.txt", f"clients {m}\n"
        keep = len(title) + t * (2 * -(-m // 8) + 1) if t else 0  # all lines of rounds have the same length
        if m > _MOST or (keep and (not path.is_file() or path.stat().st_size < keep)):
            path.unlink(missing_ok=True)
            return None
        lines = Lines(path, keep)
        lines.append("" if t else title)
        return cls(lines)

    def add(self, reported: npt.NDArray[np.bool_]) -> None:
        self._waiting.append(np.packbits(reported).tobytes().hex() + "\n")

    def write(self) -> None:
        self._lines.append("".join(self._waiting))
        self._waiting.clear()

    def close(self) -> None:
        self._lines.close()


# run.json ------------------------------------------------------------------------------------------------------
def provenance(recorded: Mapping[str, object] | None = None, threads: int = 0) -> dict[str, object]:
    """What run.json says; `recorded` are the digests of the user's own files, `threads` those of the run."""
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_initialized() else {}  # type: ignore[no-untyped-call]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("fedswe", "torch", "numpy")},
        **(recorded or {}),
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count(), **gpu},
        "threads": threads or torch.get_num_threads(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # it runs from its source, as where nothing may be installed
        return "not installed"


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
