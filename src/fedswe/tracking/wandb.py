"""Weights & Biases, online or offline."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from fedswe.errors import require
from fedswe.results.files import write_whole
from fedswe.tracking.tracker import Status, Tracker

_FILE = "wandb.json"  # in the run directory: the id of the run, and nothing secret


@dataclass(frozen=True)
class WandB(Tracker):
    """Online, or offline in the run directory, from which `wandb sync` sends it later."""

    project: str = "fedswe"  # that the runs are put in
    mode: Literal["", "online", "offline"] = ""  # "": as WANDB_MODE says, else online

    title: ClassVar[str] = "Weights & Biases: online or offline"
    package: ClassVar[str] = "wandb"
    extra: ClassVar[str] = "wandb"

    def _mode(self) -> str:
        return self.mode or os.environ.get("WANDB_MODE", "") or "online"

    def check(self) -> None:
        from requests.utils import get_netrc_auth

        require(self.mode in ("", "online", "offline"), f"track: wandb: mode is online or offline, not {self.mode!r}")
        host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
        known = os.environ.get("WANDB_API_KEY") or get_netrc_auth(host)
        require(
            known or self._mode() != "online",
            "track: wandb has no key: run `wandb login`, set WANDB_API_KEY, or write wandb:mode=offline",
        )

    def start(self, settings: Mapping[str, Any], directory: Path | None) -> _Run:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # wandb would report its errors to its makers
        import wandb

        file = directory / _FILE if directory else None
        known = json.loads(file.read_text())["id"] if file is not None and file.is_file() else None
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=self.project,
            name=directory.name if directory else None,
            id=known,
            resume="allow" if known else None,
            config=dict(settings),
            dir=str(directory) if directory else None,
            mode=self._mode(),
            reinit="create_new",  # several runs of one process are tracked at the same time
            settings=wandb.Settings(
                silent=True,
                console="off",  # does not send the output of the command, nor anything about machine and packages
                disable_git=True,
                save_code=False,
                disable_job_creation=True,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        )
        if file is not None:
            write_whole(file, json.dumps({"id": run.id}) + "\n")
        return _Run(run)


class _Run:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, round: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=round)  # wandb ignores a round before the last that it has

    def finish(self, status: Status) -> None:
        self._run.finish(exit_code=0 if status == "finished" else 1)
