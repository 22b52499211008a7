"""Regret and its intervals, computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from fedswe.gym.gym import Tuning
from fedswe.gym.rules import Rule
from fedswe.gym.settings import SCALES, Setting
from fedswe.gym.standings import SettingResult, entry, reached, standings
from fedswe.gym.trial import Trial
from fedswe.results.table import Interval
from tests.gym.rows import row

SCALE = replace(SCALES["ci"], tuning_seeds=(1,), seeds=(3, 4, 6))


def tuned(label, accuracies, outputs=(("server", 0.5),), twice=0.1):
    """One good trial, one at twice its rate, and the judged runs of the first."""
    rows = {Trial(0.2): [], Trial(0.4): []}
    for output, held_out in outputs:
        rows[Trial(0.2)].append(row(rule=label, rate=0.2, seed=1, output=output, held_out=held_out))
        rows[Trial(0.4)].append(row(rule=label, rate=0.4, seed=1, output=output, held_out=twice))
        rows[Trial(0.2)] += [
            row(rule=label, rate=0.2, seed=seed, output=output, test=a)
            for seed, a in zip(SCALE.seeds, accuracies, strict=True)
        ]
    return Tuning(SCALE, rows)


def measured(label, accuracies, **more):
    return entry(Rule(label), tuned(label, accuracies, **more))


def setting(name, **rules):
    chosen = pd.DataFrame([of for of in rules.values() if of]).set_index("label", drop=False)
    return SettingResult(Setting(SCALE, "digits", name), list(rules), chosen)


def test_regret_is_the_paired_difference_to_the_best():
    first, second = (0.8, 0.9, 0.85), (0.7, 0.85, 0.8)
    result = setting("sine", fedavg=measured("fedavg", first), fedau=measured("fedau", second))
    found = result.regret("fedau")
    test = ttest_rel(np.array(first) * 100, np.array(second) * 100).confidence_interval(0.95)
    assert found.mean == pytest.approx(100 * np.mean(np.subtract(first, second)))
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((test.low, test.high))
    assert result.regret("fedavg") == Interval(0.0, 0.0)
    assert result.behind("fedavg", "fedau").mean == pytest.approx(-found.mean)
    assert math.isnan(result.behind("fedavg", "mifa").mean)


def test_the_served_model_is_chosen_on_held_out_samples_of_the_seeds_for_tuning():
    found = measured("fedavg", (0.9, 0.9, 0.9), outputs=(("server", 0.5), ("client_mean", 0.7)))
    assert (found["output"], found["trial"]) == ("client_mean", Trial(0.2))
    assert found["cliff"] == pytest.approx(70)  # nothing is learned at twice the rate


def test_a_rule_whose_judged_run_diverged_has_failed():
    tuning = tuned("fedavg", (0.9, 0.9, 0.9))
    tuning.rows[Trial(0.2)][-1] = row(rate=0.2, seed=6, diverged=True)
    assert entry(Rule("fedavg"), tuning) is None


def test_rules_that_know_the_probabilities_set_no_standard():
    known = measured("fedavg_known", (0.95, 0.95, 0.95))
    result = setting("sine", fedavg=measured("fedavg", (0.8, 0.8, 0.8)), fedavg_known=known)
    assert result.best["label"] == "fedavg"
    assert result.regret("fedavg_known").mean == pytest.approx(-15)
    rows = standings([result], [Rule("fedavg"), Rule("fedavg_known")]).set_index(["in"])
    assert rows["first"].tolist() == [0.0, 1.0]


def test_standings_order_by_the_worst_case_and_put_failures_last():
    rules = [Rule("fedavg"), Rule("fedau"), Rule("mifa")]
    found = [
        setting("sine", fedavg=measured("fedavg", (0.9,) * 3), fedau=measured("fedau", (0.88,) * 3), mifa=None),
        setting("turns", fedavg=measured("fedavg", (0.5,) * 3), fedau=measured("fedau", (0.6,) * 3),
                mifa=measured("mifa", (0.7,) * 3)),
    ]  # fmt: skip
    rows = standings(found, rules)
    assert [rule.label for rule in rows["rule"]] == ["fedau", "fedavg", "mifa"]
    assert rows["in"].tolist() == ["digits-turns", "digits-turns", "failed in digits-sine"]
    assert rows["worst"][0].mean == pytest.approx(10)
    assert rows["mean"][1] == Interval(pytest.approx(10), 0.0)
    assert rows["ahead"][0].mean == pytest.approx(4)
    assert rows["failed"].tolist() == [[], [], ["digits-sine"]]
    (unmeasured,) = standings(found, [Rule("fedvarp")]).to_dict("records")
    assert unmeasured["failed"] == []
    assert unmeasured["in"] == "not measured in digits-sine and 1 more"


def test_intervals_of_means_are_by_resampled_seeds():
    """Two rules that differ by +6, -3 and +3 points, in all 27 resamples of three seeds."""
    a, b = (0.86, 0.82, 0.85), (0.80, 0.85, 0.82)
    rows = standings(
        [setting("sine", fedavg=measured("fedavg", a), fedau=measured("fedau", b))], [Rule("fedavg"), Rule("fedau")]
    )
    first = dict(zip([rule.label for rule in rows["rule"]], rows["first"], strict=True))
    assert first["fedavg"] + first["fedau"] == pytest.approx(1)
    sums = np.array([[x + y + z for x in d for y in d for z in d] for d in ([6, -3, 3],)]).ravel()
    assert first["fedau"] == pytest.approx((sums < 0).mean(), abs=0.03 + (sums == 0).mean())
    low, high = np.quantile(np.repeat(np.maximum(-sums / 3, 0), 100), (0.025, 0.975))
    assert rows["mean"][0].half == pytest.approx((high - low) / 2, abs=0.3)


def test_rounds_to_a_target():
    rows = [row(curve=(0.1, 0.5, 0.6), rounds=(0, 10, 20)), row(seed=4, curve=(0.1, 0.2, 0.6), rounds=(0, 10, 20))]
    assert reached(rows, 0.5) == 15
    assert reached(rows, 0.7) == math.inf
