"""The choice among outputs by their scores on held-out samples."""

import math

import pytest

from fedswe import Evaluate, FedsweError
from fedswe.algorithms import FedAvg
from fedswe.engine.outputs import Best, Outputs, ServerModel, Window
from tests import problems

NAMES = ["a", "a_b", "c"]


def rows(score, **values):
    count = len(next(iter(values.values())))
    return [{f"{name}_{score}": series[i] for name, series in values.items()} for i in range(count)]


LONG = {"a": [0.9, 0.2, 0.2, 0.6], "a_b": [0.1, 0.5, 0.5, 0.5], "c": [0.0] * 4}


@pytest.mark.parametrize(
    ("best", "values", "chosen"),
    [
        (Best(), {"a": [0.5], "a_b": [0.7], "c": [0.6]}, "a_b"),
        (Best(by="loss"), {"a": [0.5], "a_b": [0.7], "c": [0.4]}, "c"),
        (Best(), {"a": [0.5], "a_b": [0.7], "c": [0.7]}, "a_b"),  # the first of equal ones
        *[(Best(over=over), LONG, "a_b" if over == 3 else "a") for over in (1, 3, 4, 99)],
    ],
)
def test_the_mean_over_the_last_evaluations_on_held_out_samples_decides(best, values, chosen):
    found = rows(f"held_out_{best.by}", **values)
    others = [{f"{name}_{part}_{best.by}": i for i, name in enumerate(NAMES)} for part in ("train", "test")]
    assert best.choice(NAMES, [{**row, **others[0], **others[1]} for row in found]) == chosen
    assert best.choice(NAMES, []) == "a"


@pytest.mark.parametrize("last", [math.nan, math.inf, -math.inf])
def test_a_model_that_diverged_is_not_chosen(last):
    for best, score in ((Best(), "held_out_accuracy"), (Best(by="loss"), "held_out_loss")):
        assert best.choice(["a", "c"], rows(score, a=[0.5, last], c=[0.5, 0.4])) == "c"
        assert best.choice(["a", "c"], rows(score, a=[last, 0.5], c=[last, 0.4])) == ("c" if best.by == "loss" else "a")
        assert best.choice(["a", "c"], rows(score, a=[last], c=[last])) == "a"


def test_rows_of_another_configuration_do_not_count():
    """A server that was started again may evaluate other models."""
    found = rows("held_out_accuracy", a=[0.9, 0.8]) + rows("held_out_accuracy", a=[0.1], c=[0.5])
    assert Best().choice(["a", "c"], found) == "a"
    assert Best(over=1).choice(["a", "c"], found) == "c"
    assert Best().choice(["a", "c"], rows("held_out_accuracy", a=[0.1, 0.2])) == "a"


def test_columns_are_those_of_the_chosen_model():
    engine = problems.engine("batched", FedAvg(), problems.quadratic(4), problems.mask(40, 4))
    outputs = Outputs(engine, {"best": Best(over=1), "server": ServerModel(), "server_x": Window(3)})
    worth = iter([0.3, 0.4, 0.9, 0.1])

    def evaluate(x):
        value = next(worth)
        return {"held_out_accuracy": value, "test_accuracy": -value}

    first = outputs.columns(evaluate, [])
    assert (first["best_choice"], first["best_held_out_accuracy"], first["best_test_accuracy"]) == (2, 0.4, -0.4)
    second = outputs.columns(evaluate, [first])
    assert (second["best_choice"], second["best_test_accuracy"]) == (1, -0.9)
    assert outputs.chosen([first, second]) == {"best": "server"}
    assert list(outputs.models([first])) == ["best", "server", "server_x"]
    assert outputs.models([first])["best"].equal(outputs.computed()["server_x"])
    assert "best_x_test_accuracy" not in first


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"test_accuracy": 0.5}, "best needs held-out samples: set task.hold_out"),
        ({"held_out_loss": 0.5}, "the task has no score held_out_accuracy: write best:by=loss"),
    ],
)
def test_a_task_without_the_score(scores, message):
    engine = problems.engine("batched", FedAvg(), problems.quadratic(4), problems.mask(40, 4))
    with pytest.raises(FedsweError, match=message) as caught:
        Outputs(engine, {"server": ServerModel(), "best": Best()}).columns(lambda _: scores, [])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["best"], "best needs other models to choose from"),
        (["best", "best:by=loss"], "best needs other models to choose from"),
        (["server", "best:0"], "over must be greater than or equal to 1"),
        (["server", "best:by=test_accuracy"], "by must be 'accuracy' or 'loss'"),
    ],
)
def test_choices_that_cannot_be_made(models, message):
    with pytest.raises(FedsweError, match=message):
        Evaluate(model=models)
