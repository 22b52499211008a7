"""MLflow: one MLflow run for each run, at the server or in the folder that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedswe.results.files import write_whole
from fedswe.tracking.tracker import Status, Tracker

_FILE = "mlflow.json"  # in the run directory: the id of the MLflow run, and nothing secret
_STATUS: dict[Status, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_BATCH = 100  # parameters that MLflow takes at once
_LONGEST = 500  # characters of a parameter, for older servers


@dataclass(frozen=True)
class MLflow(Tracker):
    """One MLflow run for each run, at the server or in the store that MLFLOW_TRACKING_URI names."""

    experiment: str = "fedswe"  # the MLflow experiment that the runs are put in

    title: ClassVar[str] = "MLflow: a server or a local store"
    package: ClassVar[str] = "mlflow"
    extra: ClassVar[str] = "mlflow"

    def start(self, settings: Mapping[str, Any], directory: Path | None) -> _Run:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # MLflow would report its use to its makers
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # of 120 s each, while a run waits; 7 by default
        import mlflow
        from mlflow import MlflowClient
        from mlflow.entities import Param

        client, file = MlflowClient(), directory / _FILE if directory else None
        if file is not None and file.is_file():
            found = str(json.loads(file.read_text())["run_id"])
            client.update_run(found, status="RUNNING")
            sent = [(n, client.get_metric_history(found, n)) for n in client.get_run(found).data.metrics]
            return _Run(client, found, {(name, value.step): value.value for name, values in sent for value in values})
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it would print that it makes an experiment
        group = mlflow.set_experiment(self.experiment).experiment_id
        found = client.create_run(group, run_name=directory.name if directory else None).info.run_id
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps({"run_id": found}) + "\n")
        parameters = [Param(key, str(value)[:_LONGEST]) for key, value in settings.items()]
        for at in range(0, len(parameters), _BATCH):
            client.log_batch(found, params=parameters[at : at + _BATCH])
        return _Run(client, found, {})


class _Run:
    def __init__(self, client: Any, run: str, logged: dict[tuple[str, int], float]) -> None:
        self._client, self._run, self._logged = client, run, logged

    def log(self, round: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        named = {re.sub(r"[^\w\-. /:]", "_", name): value for name, value in values.items()}
        # A resumed run repeats rounds, with the same scores. As text, because nan is not equal to itself.
        new = {name: value for name, value in named.items() if str(self._logged.get((name, round))) != str(value)}
        if not new.keys() <= {"seconds"} or not self._logged:
            self._client.log_batch(self._run, metrics=[Metric(name, value, now, round) for name, value in new.items()])

    def finish(self, status: Status) -> None:
        self._client.set_terminated(self._run, _STATUS[status])
