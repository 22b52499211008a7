"""Run several experiments as one stack."""

import numpy as np

from fedswe import run
from fedswe.experiment.runner import Runner, advance


def run_together(experiments):
    runners = [Runner(experiment) for experiment in experiments]
    for _ in advance(runners, threads=1):
        pass
    return [runner.history for runner in runners]


def assert_same_as_alone(experiments, rtol, atol=0.0):
    """Each ends in the stack where it ends alone; the histories of the stack."""
    histories = run_together(experiments)
    for together, experiment in zip(histories, experiments, strict=True):
        alone = run(experiment).history
        assert together.columns == alone.columns
        for column in set(alone.columns) - {"seconds"}:
            np.testing.assert_allclose(together[column], alone[column], rtol=rtol, atol=atol, err_msg=column)
    return histories
