"""What a history holds, and what is read from it."""

import pytest

from fedswe import Evaluate, Experiment, run
from fedswe.availability import Mask
from fedswe.errors import FedsweError
from fedswe.results.history import History
from fedswe.tasks import Quadratic

ROWS = History([{"round": t, "accuracy": float(t)} for t in (0, 20, 40, 60)])


@pytest.mark.parametrize(("rounds", "mean"), [(1, 60), (20, 60), (21, 50), (50, 40), (60, 40), (1000, 40)])
def test_the_mean_over_the_last_rounds_never_counts_the_model_before_the_first(rounds, mean):
    assert ROWS.tail_mean("accuracy", rounds) == mean


def test_who_was_there_and_how_long_they_had_been_away(tmp_path):
    """Echoes are t - tau_i, 1 for who was there the round before, gathered since the row before."""
    (tmp_path / "mask.csv").write_text("1,0\n0,0\n1,1\n1,0\n1,1\n0,0\n")
    history = run(
        Experiment(
            rounds=6,
            availability=Mask(file=str(tmp_path / "mask.csv")),
            task=Quadratic(centers=[[0.0], [1.0]]),
            evaluate=Evaluate(every=3),
        )
    ).history
    assert history["round"].tolist() == [0, 3, 6]
    assert history["available"].tolist() == history["reported"].tolist() == [0, 2, 0]
    assert history["echo_mean"].tolist() == [0, (1 + 2 + 3) / 3, (1 + 1 + 2) / 3]
    assert history["echo_max"].tolist() == [0, 3, 2]


def test_rows_with_other_columns_are_refused():
    history = History()
    history.append({"round": 0, "a": 1.0})
    with pytest.raises(FedsweError, match=r"the scores changed during the run \(a, b\)"):
        history.append({"round": 1, "b": 2.0})
    assert history.to_csv() == "round,a\n0,1\n"


def test_the_table():
    frame = History([{"round": 0, "a": 1.0}, {"round": 2, "a": 0.5}]).table
    assert (list(frame), frame["a"].tolist()) == (["round", "a"], [1.0, 0.5])
