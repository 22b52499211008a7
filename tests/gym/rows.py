"""Measurements made up for tests."""

from dataclasses import asdict

from fedswe.gym.gym import Tuning
from fedswe.gym.measurements import Measured
from fedswe.gym.trial import Trial


def row(rate=0.1, held_out=0.5, test=0.5, seed=3, output="server", rule="fedavg", diverged=False, trial=None, **more):
    values = {
        "worst_tenth": 0.1, "rare": 0.2, "never": float("nan"), "correlation": 0.3,
        "curve": (0.1, test), "rounds": (0, 10), "settings": "abc", "source": "", "arithmetic": "cpu fp32",
    }  # fmt: skip
    return Measured(
        rule=rule, **asdict(trial or Trial(rate)), seed=seed, output=output, held_out=held_out, test=test,
        diverged=diverged, **{**values, **more},
    )  # fmt: skip


def all_runs(scale, score, **more):
    """The rows of a whole search by this score of trials, and of the runs after it, at all served models."""
    rows = {}
    while runs := Tuning(scale, rows).next():
        for trial, seed in runs:
            rows.setdefault(trial, []).extend(
                row(trial=trial, seed=seed, held_out=score(trial), output=output, **more)
                for output in ("server", "client_mean", "ema", "ema_client_mean")
            )
    return [one for of in rows.values() for one in of]
