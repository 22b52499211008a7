"""Trackers: the scores of runs, sent to TensorBoard, MLflow, Weights & Biases or a service of your own.

A tracker is a frozen value with its parameters, which starts the record of one run. The results of a run do not depend
on its trackers. What fails in one is a warning, and the run goes on without it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from fedswe.errors import TrackerWarning, first_line, located, printable, require, warn
from fedswe.registry import instance
from fedswe.results.files import write_whole

Status = Literal["finished", "stopped", "failed"]  # a stopped run can be resumed


class TrackedRun(Protocol):
    """The record of one run at a tracker. The run waits for every call."""

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """The row of the history after so many rounds, without the column `round`.

        A resumed run gives all rounds again, from the first: some may not have arrived before it was killed.
        """

    def finish(self, status: Status) -> None:
        """The run has ended, or was stopped. A process that is killed does not call it."""


class Tracker(ABC):
    """Derive a frozen dataclass; its fields are parameters, given as `NAME:KEY=VALUE`."""

    title: ClassVar[str] = ""  # one line for `fedswe list`
    package: ClassVar[str] = ""  # the Python package that it needs
    needs_directory: ClassVar[bool] = False  # whether it can only track runs that are kept in a directory

    @abstractmethod
    def start(self, settings: Mapping[str, Any], directory: Path | None) -> TrackedRun:
        """Begin to track a run, or continue to: a resumed run has the same directory.

        `settings` are the keys of the configuration with their values, e.g. {"local.lr": 0.1}. `directory` is where a
        tracker may keep files of this run, such as the name of its record; None if the run is not kept.
        """

    def check(self) -> None:
        """Refuse, before the first round, what cannot work."""
        return


def check_trackers(track: Sequence[str], kept: bool = True) -> None:
    """Refuse unknown trackers and those that cannot be used here. `kept`: the run has a directory that stays."""
    for text in track:
        tracker: Tracker = instance("tracker", text, "track")
        own = type(tracker).__module__ == __name__  # an extra of fedswe has the name of the package
        install = f"pip install 'fedswe[{tracker.package}]'" if own else f"pip install {tracker.package}"
        there = not tracker.package or find_spec(tracker.package) is not None
        require(there, f"track: {text} needs the package {tracker.package}: {install}")
        require(kept or not tracker.needs_directory, f"track: {text} writes into the directory of the run: give `out`")
        tracker.check()


class Tracking:
    """The trackers of one run. They start after a round: a run that fails in its first leaves nothing."""

    directory: Path | None = None  # where they keep their files

    def __init__(self, track: Sequence[str], settings: Mapping[str, Any]) -> None:
        self._track, self._settings = track, settings
        self._runs: dict[str, TrackedRun] = {}
        self._sent = 0  # rows that they have been given

    def log(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Give them the rows of a history that are new."""
        for name in () if self._sent else self._track:
            with self._left_if_it_fails(name):
                self._runs[name] = instance("tracker", name, "track").start(self._settings, self.directory)
        for row in rows[self._sent :]:
            values = {name: float(value) for name, value in row.items() if name != "round"}
            for name, run in list(self._runs.items()):
                with self._left_if_it_fails(name):
                    run.log(int(row["round"]), values)
        self._sent = len(rows)

    def finish(self, status: Status) -> None:
        for name in list(self._runs):
            with self._left_if_it_fails(name):
                self._runs.pop(name).finish(status)

    @contextmanager
    def _left_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:  # packages of others may also call sys.exit
            self._runs.pop(name, None)
            reason = printable(located(error) or first_line(error))
            reason = re.sub(r"://[^/\s@]*@", "://", reason)  # no password of an address: the line may be kept in a log
            warn(f"the tracker {name} failed ({reason}): the run goes on without it", TrackerWarning)


# the built-in ones ----------------------------------------------------------------------------------------
class _RunId:
    """The id that a service has given to a run, kept in a file of its directory; nothing secret."""

    def __init__(self, directory: Path | None, name: str, key: str) -> None:
        self._file, self._key = directory and directory / name, key

    def read(self) -> str | None:
        """None before the run is resumed for the first time."""
        return json.loads(self._file.read_text())[self._key] if self._file and self._file.is_file() else None

    def write(self, run: str) -> None:
        if self._file:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps({self._key: run}) + "\n")


@dataclass(frozen=True)
class TensorBoard(Tracker):
    """Event files in the folder `tensorboard` of each run directory; `tensorboard --logdir runs` shows them."""

    title: ClassVar[str] = "TensorBoard: event files in the run directory"
    package: ClassVar[str] = "tensorboard"
    needs_directory: ClassVar[bool] = True

    def start(self, settings: Mapping[str, Any], directory: Path | None) -> _EventFiles:
        from torch.utils.tensorboard import SummaryWriter

        # Readers ignore what an earlier process of this run has written, since all rounds are given again.
        writer = SummaryWriter(f"{directory}/tensorboard", purge_step=0)
        table = [f"| {key} | `{value}` |" for key, value in settings.items()]
        writer.add_text("configuration", "\n".join(["| key | value |", "|---|---|", *table]), 0)
        return _EventFiles(writer)


class _EventFiles:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log(self, round: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def finish(self, status: Status) -> None:
        self._writer.close()


@dataclass(frozen=True)
class MLflow(Tracker):
    """One MLflow run for each run, at the server or in the store that MLFLOW_TRACKING_URI names."""

    experiment: str = "fedswe"  # the MLflow experiment that the runs are put in

    title: ClassVar[str] = "MLflow: a server or a local store"
    package: ClassVar[str] = "mlflow"

    def start(self, settings: Mapping[str, Any], directory: Path | None) -> _MLflowRun:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # MLflow would report its use to its makers
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # of 120 s each, while a run waits; 7 by default
        import mlflow
        from mlflow import MlflowClient
        from mlflow.entities import Param

        client, kept = MlflowClient(), _RunId(directory, "mlflow.json", "run_id")
        if found := kept.read():
            client.update_run(found, status="RUNNING")
            return _MLflowRun(client, found, {value.step for value in client.get_metric_history(found, "available")})
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it would print that it makes an experiment
        group = mlflow.set_experiment(self.experiment).experiment_id
        found = client.create_run(group, run_name=directory.name if directory else None).info.run_id
        kept.write(found)
        longest, batch = 500, 100  # characters of a parameter, for older servers; parameters that MLflow takes at once
        parameters = [Param(key, str(value)[:longest]) for key, value in settings.items()]
        for at in range(0, len(parameters), batch):
            client.log_batch(found, params=parameters[at : at + batch])
        return _MLflowRun(client, found, set())


class _MLflowRun:
    def __init__(self, client: Any, run: str, there: set[int]) -> None:
        self._client, self._run, self._there = client, run, there  # rounds that arrived before the run was resumed

    def log(self, round: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        if round not in self._there:
            named = {re.sub(r"[^\w\-. /:]", "_", name): value for name, value in values.items()}
            self._client.log_batch(self._run, metrics=[Metric(name, named[name], now, round) for name in named])

    def finish(self, status: Status) -> None:
        self._client.set_terminated(self._run, {"stopped": "KILLED"}.get(status, status.upper()))


@dataclass(frozen=True)
class WandB(Tracker):
    """Online, or offline in the run directory, from which `wandb sync` sends it later."""

    project: str = "fedswe"  # that the runs are put in
    mode: Literal["", "online", "offline"] = ""  # "": as WANDB_MODE says, else online

    title: ClassVar[str] = "Weights & Biases: online or offline"
    package: ClassVar[str] = "wandb"

    def _mode(self) -> str:
        return self.mode or os.environ.get("WANDB_MODE", "") or "online"

    def check(self) -> None:
        from requests.utils import get_netrc_auth

        require(self.mode in ("", "online", "offline"), f"track: wandb: mode is online or offline, not {self.mode!r}")
        host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
        known = os.environ.get("WANDB_API_KEY") or get_netrc_auth(host)
        login = "run `wandb login`, set WANDB_API_KEY, or write wandb:mode=offline"
        require(known or self._mode() != "online", f"track: wandb has no key: {login}")

    def start(self, settings: Mapping[str, Any], directory: Path | None) -> _WandBRun:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # wandb would report its errors to its makers
        import wandb

        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        kept = _RunId(directory, "wandb.json", "id")
        # It sends neither the output of the command, nor anything about machine and packages.
        silence = ("disable_git", "disable_job_creation", "x_disable_stats", "x_disable_meta", "x_disable_machine_info")
        private = {"silent": True, "console": "off", "save_code": False, "x_save_requirements": False}
        run = wandb.init(
            project=self.project,
            name=directory.name if directory else None,
            id=kept.read(),
            resume="allow" if kept.read() else None,
            config=dict(settings),
            dir=str(directory) if directory else None,
            mode=self._mode(),
            reinit="create_new",  # several runs of one process are tracked at the same time
            settings=wandb.Settings(**private, **dict.fromkeys(silence, True)),
        )
        kept.write(run.id)
        return _WandBRun(run)


class _WandBRun:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, round: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=round)  # wandb ignores a round before the last that it has

    def finish(self, status: Status) -> None:
        self._run.finish(exit_code=0 if status == "finished" else 1)
