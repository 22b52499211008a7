"""How many bytes the clients of a run have sent and received."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedswe.core.footprint import footprint
from fedswe.errors import require
from fedswe.experiment.configuration import named
from fedswe.figures.measured import MeasuredRun

Floats = npt.NDArray[np.float64]


def bytes_sent(run: MeasuredRun) -> Floats:
    """Up and down, by all clients together, until each evaluated round.

    The history has the number of reports in evaluated rounds only. In the rounds between two of them it is taken to be
    the mean of both, so the sum is exact if every round was evaluated, and an estimate otherwise. A run with
    simulated time has counted them.
    """
    history = run.history
    if "bytes_sent" in history.columns:
        return history["bytes_sent"]
    require("reported" in history.columns, f"{run.source}: the history does not say how many clients reported")
    rounds, reported = history["round"], history["reported"]
    before = np.concatenate([reported[:1], reported[:-1]])
    before[rounds.searchsorted(0, side="right") :][:1] = reported[rounds > 0][:1]  # nobody reports before round 1
    passed = np.diff(rounds, prepend=0.0)
    between = np.maximum(passed - 1, 0) * (before + reported) / 2
    reports = np.cumsum(np.where(passed > 0, reported + between, 0.0))
    return np.asarray(reports * _bytes_per_report(run))


def is_exact(run: MeasuredRun) -> bool:
    return "bytes_sent" in run.history.columns or bool((np.diff(run.history["round"], prepend=0.0) <= 1).all())


def _bytes_per_report(run: MeasuredRun) -> int:
    model = run.models[0]
    # The vector of the trained parameters, or the tensors that it consists of.
    d = run.sizes.get(model) or sum(n for name, n in run.sizes.items() if name.startswith(f"{model}."))
    require(
        d, f"{run.source}: the size of the model is not known, since the run has no model.safetensors: use --x rounds"
    )
    counted = footprint(named("algorithm", run.config["algorithm"], "algorithm"), d)
    width = 8 if run.config.get("dtype") == "float64" else 4
    return width * (counted.down + counted.up + counted.reply)
