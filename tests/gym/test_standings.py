"""Regret and its intervals, computed by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from fedswe.gym.rules import Rule
from fedswe.gym.settings import SCALES, Setting
from fedswe.gym.standings import SettingResult, entry, reached, standings
from fedswe.results.table import Interval
from tests.gym.rows import row

SEEDS = (3, 4, 6)


def measured(label, accuracies, rate=0.2, output="server", held_out=0.5):
    """Trials with one good rate between two bad ones."""
    trials = {
        r: [
            row(rule=label, rate=r, seed=s, output=output, held_out=held_out if r == rate else 0.1, test=a)
            for s, a in zip(SEEDS, accuracies, strict=True)
        ]
        for r in (rate / 2, rate, rate * 2)
    }
    return entry(Rule(label), trials, output)


def setting(name, **rules):
    entries = pd.DataFrame([entry for of_rule in rules.values() for entry in of_rule])
    return SettingResult(Setting(SCALES["ci"], "digits", name), list(rules), entries)


def test_regret_is_the_paired_difference_to_the_best():
    first, second = (0.8, 0.9, 0.85), (0.7, 0.85, 0.8)
    result = setting("sine", fedavg=[measured("fedavg", first)], fedau=[measured("fedau", second)])
    found = result.regret(result.chosen.loc["fedau", "test"])
    test = ttest_rel(np.array(first) * 100, np.array(second) * 100).confidence_interval(0.95)
    assert found.mean == pytest.approx(100 * np.mean(np.subtract(first, second)))
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((test.low, test.high))
    assert result.regret(result.best["test"]) == Interval(0.0, 0.0)


def test_the_served_model_is_chosen_on_held_out_samples():
    server = measured("fedavg", (0.9, 0.9, 0.9), held_out=0.5)
    mean = measured("fedavg", (0.6, 0.6, 0.6), output="client_mean", held_out=0.7)
    result = setting("sine", fedavg=[server, mean])
    assert result.chosen.loc["fedavg", "output"] == "client_mean"


def test_rules_that_know_the_probabilities_set_no_standard():
    known = measured("fedavg_known", (0.95, 0.95, 0.95))
    result = setting("sine", fedavg=[measured("fedavg", (0.8, 0.8, 0.8))], fedavg_known=[known])
    assert result.best["label"] == "fedavg"
    assert result.regret(known["test"]).mean == pytest.approx(-15)


def test_standings_order_by_the_worst_case_and_put_failures_last():
    rules = [Rule("fedavg"), Rule("fedau"), Rule("mifa")]
    found = [
        setting("sine", fedavg=[measured("fedavg", (0.9,) * 3)], fedau=[measured("fedau", (0.88,) * 3)], mifa=[]),
        setting("turns", fedavg=[measured("fedavg", (0.5,) * 3)], fedau=[measured("fedau", (0.6,) * 3)],
                mifa=[measured("mifa", (0.7,) * 3)]),
    ]  # fmt: skip
    rows = standings(found, rules)
    assert [rule.label for rule in rows["rule"]] == ["fedau", "fedavg", "mifa"]
    assert rows["in"].tolist() == ["digits-turns", "digits-turns", "failed in digits-sine"]
    assert rows["worst"][0].mean == pytest.approx(10)
    assert rows["mean"][1] == pytest.approx(10)
    assert rows["failed"].tolist() == [[], [], ["digits-sine"]]
    assert rows["worst"][2] is None
    (unmeasured,) = standings(found, [Rule("fedvarp")]).to_dict("records")
    assert unmeasured["failed"] == []
    assert unmeasured["in"] == "not completely measured in digits-sine and 1 more"


def test_a_rate_at_the_edge_is_marked():
    trials = {r: [row(rate=r, held_out=r)] for r in (0.1, 0.2)}
    assert entry(Rule("fedavg"), trials, "server")["edge"]
    assert not measured("fedavg", (0.5,) * 3)["edge"]


def test_rounds_to_a_target():
    trials = {
        0.1: [row(curve=(0.1, 0.5, 0.6), rounds=(0, 10, 20)), row(seed=4, curve=(0.1, 0.2, 0.6), rounds=(0, 10, 20))]
    }
    rows = entry(Rule("fedavg"), trials, "server")["rows"]
    assert reached(rows, 0.5, "rounds") == 15
    assert reached(rows, 0.7, "rounds") == math.inf
    assert math.isnan(reached(rows, 0.5, "seconds"))


def test_seconds_to_a_target():
    trials = {0.1: [row(curve=(0.1, 0.5), rounds=(0, 10), seconds=(0.0, 70.0))]}
    rows = entry(Rule("fedavg"), trials, "server")["rows"]
    assert reached(rows, 0.5, "seconds") == 70
    assert reached(rows, 0.7, "seconds") == math.inf
