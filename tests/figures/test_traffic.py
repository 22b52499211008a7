"""Bytes are the reports times the messages of the algorithm; exact if every round was evaluated."""

import numpy as np
import pytest

from fedswe.errors import FedsweError
from fedswe.figures import plot
from fedswe.figures.measured import measured_runs
from fedswe.figures.traffic import bytes_sent
from tests.figures.runs import write_run


def test_bytes_of_every_round(tmp_path):
    (run,) = measured_runs([write_run(tmp_path / "a", every=1, algorithm={"name": "fedavg"})])
    per_round = 10 * 4 * 2 * 650  # reports, bytes of a number, the model down and up
    np.testing.assert_allclose(bytes_sent(run), per_round * np.arange(41))


def test_rounds_that_were_not_evaluated_are_estimated(tmp_path):
    (run,) = measured_runs([write_run(tmp_path / "a", every=10, algorithm={"name": "fedavg"})])
    np.testing.assert_allclose(bytes_sent(run), 10 * 4 * 2 * 650 * np.arange(0, 41, 10))


@pytest.mark.parametrize(
    ("every", "label"), [(1, "MB sent by all clients"), (10, "MB sent by all clients (estimated)")]
)
def test_the_axis_says_whether_bytes_are_estimated(every, label, tmp_path):
    run = write_run(tmp_path / "a", every=every)
    assert plot(run, x="bytes").axes[0].get_xlabel() == label


def test_without_a_model_the_size_is_not_known(tmp_path):
    run = write_run(tmp_path / "a", finished=False)
    with pytest.warns(match="not finished"), pytest.raises(FedsweError, match="use --x rounds"):
        plot(run, x="bytes")
