"""Measurements made up for tests."""

from dataclasses import asdict

from fedswe.gym.measurements import Measured
from fedswe.gym.trial import Trial


def row(rate=0.1, held_out=0.5, test=0.5, seed=3, output="server", rule="fedavg", diverged=False, trial=None, **more):
    values = {
        "worst_tenth": 0.1, "rare": 0.2, "never": float("nan"),
        "curve": (0.1, test), "rounds": (0, 10), "settings": "abc", "source": "", "arithmetic": "cpu fp32",
    }  # fmt: skip
    return Measured(
        rule=rule, **asdict(trial or Trial(rate)), seed=seed, output=output, held_out=held_out, test=test,
        diverged=diverged, **{**values, **more},
    )  # fmt: skip
