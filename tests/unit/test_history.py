"""What is read from a history."""

import pytest

from fedswe.results.history import History

ROWS = History([{"round": t, "accuracy": float(t)} for t in (0, 20, 40, 60)])


@pytest.mark.parametrize(("rounds", "mean"), [(1, 60), (20, 60), (21, 50), (50, 40), (60, 40), (1000, 40)])
def test_the_mean_over_the_last_rounds_never_counts_the_model_before_the_first(rounds, mean):
    assert ROWS.tail_mean("accuracy", rounds) == mean
