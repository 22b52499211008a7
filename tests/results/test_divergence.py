"""When a run counts as diverged."""

import math

import pytest

from fedswe.results.history import History, divergence


@pytest.mark.parametrize(
    ("first", "last", "sign"),
    [
        ({"server_train_loss": 2.0}, {"server_train_loss": 150.0}, ""),
        ({"server_train_loss": 2.0}, {"server_train_loss": 201.0}, "server_train_loss rose from 2 to 201"),
        ({"server_train_loss": 0.0}, {"server_train_loss": 5.0}, ""),  # from an optimum, any loss is many times more
        ({"server_distance": 1.0}, {"server_distance": 900.0}, ""),  # not a loss
        ({"server_auc": 0.5}, {"server_auc": math.nan}, "server_auc is nan"),
        ({"server_train_loss": 1.0, "own": 1.0}, {"server_train_loss": 0.5, "own": math.inf}, ""),
    ],
)
def test_a_model_diverged_when_a_score_is_not_finite_or_a_loss_exploded(first, last, sign):
    assert divergence(History([{"round": 0, **first}, {"round": 9, **last}]), "server_") == sign


def test_a_model_is_judged_by_its_own_columns():
    """The name of one model may begin with that of another."""
    models = ("server", "ema", "ema_client_mean")
    healthy = {"round": 0} | {f"{model}_test_loss": 1.0 for model in models}
    history = History([healthy, {**healthy, "round": 1, "ema_client_mean_test_loss": 1e4}])
    assert divergence(history, "ema_", models) == ""
    assert divergence(history, "ema_client_mean_", models)
    assert divergence(history)
