"""The results table, and who is best within the noise, on numbers whose answer is known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t, ttest_1samp

from fedswe.results.history import History
from fedswe.results.table import (
    CONFIDENCE,
    Interval,
    by_seed,
    difference,
    differs,
    diverged_text,
    final_scores,
    fluctuation,
    long,
    on_common_seeds,
    quantile,
    ranking,
)


def finals(**by_label):
    """A column per label; lists are of the seeds 0, 1, ..., dicts by seed."""
    columns = {name: dict(enumerate(of)) if isinstance(of, tuple) else of for name, of in by_label.items()}
    return pd.DataFrame({name: pd.Series(of, dtype=float) for name, of in columns.items()}).sort_index()


def test_the_long_table():
    rows = [{"round": 0, "ema_loss": 2.0, "ema_best_loss": 3.0, "available": 1}]
    table = long([({"label": "fedavg", "seed": 3}, History(rows))], ["ema", "ema_best"])
    assert list(table) == ["label", "seed", "round", "model", "score", "value"]
    assert table[["model", "score", "value"]].to_numpy().tolist() == [
        ["ema", "loss", 2.0],
        ["ema_best", "loss", 3.0],
        ["", "available", 1.0],
    ]


def test_a_run_diverged_where_its_model_did():
    good = [{"round": t, "a_loss": 1.0, "a_accuracy": t / 100, "b_loss": 1.0} for t in range(101)]

    def diverged(**last):
        found = final_scores(History([*good[:-1], {**good[-1], **last}]), "a", ["a", "b"])
        assert [row["score"] for row in found] == ["loss", "accuracy"]
        return [row["diverged"] for row in found]

    assert final_scores(History(good), "a", ["a", "b"])[1]["value"] == pytest.approx(np.mean(np.arange(51, 101)) / 100)
    assert diverged() == diverged(b_loss=math.nan) == [False, False]
    assert diverged(a_loss=101.0) == diverged(a_accuracy=math.nan) == [True, True]


def test_a_run_that_has_only_begun_has_no_final_score():
    (row,) = final_scores(History([{"round": 0, "loss": 2.0}]), "", [])
    assert math.isnan(row["value"])
    assert not row["diverged"]


def test_finals_are_infinite_where_a_run_diverged():
    rows = pd.DataFrame({"name": ["b", "a", "b"], "seed": [4, 3, 3], "value": [1.0, 2.0, 3.0]})
    found = by_seed(rows.assign(diverged=[False, False, True]), "name")
    assert list(found) == ["b", "a"]
    assert found.loc[3].tolist() == [math.inf, 2.0]
    assert [diverged_text(found[name]) for name in found] == ["1 of 2 diverged", ""]


def test_a_steady_rise_is_no_fluctuation():
    rounds = np.arange(1, 2001)
    noise = np.random.default_rng(0).normal(size=2000)
    assert fluctuation(rounds, rounds * 0.1) == pytest.approx(0, abs=1e-9)
    assert np.mean([fluctuation(rounds[:n], (rounds + noise)[:n]) for n in range(100, 2001)]) == pytest.approx(1, 0.1)
    assert math.isnan(fluctuation([1, 2, 3], [1.0, 2.0, 1.0]))


# intervals ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("freedom", "printed"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262)])
def test_quantiles_of_the_printed_table(freedom, printed):
    assert quantile(freedom) == pytest.approx(printed, abs=5e-4)


def test_an_interval_is_that_of_the_t_test():
    values = [0.8, 0.7, 0.95, 0.6]
    found, test = Interval.of(values), ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((test.low, test.high))


def test_one_seed_has_no_interval():
    assert math.isnan(quantile(0))
    assert math.isnan(Interval.of([1.0]).half)
    assert math.isnan(Interval.of([1.0, 1.0]).half)
    assert Interval.of([1.0, 1.0, 1.0]) == Interval(1.0, 0.0)


def test_differences_are_taken_seed_by_seed():
    """The seeds differ by ten points, the two rules by one in every seed."""
    table = finals(a=(10.0, 20.0, 30.0), b=(9.0, 19.1, 28.9))
    found = difference(table, "a", "b")
    assert found.mean == pytest.approx(1.0)
    assert found.half == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-3)
    assert differs(table, "a", "b")


def test_without_common_seeds_the_interval_is_welchs():
    found = difference(finals(a={1: 10.0, 2: 12.0, 3: 14.0}, b={4: 1.0, 5: 2.0, 6: 3.0}), "a", "b")
    assert found.mean == pytest.approx(10.0)
    freedom = (4 / 3 + 1 / 3) ** 2 / ((4 / 3) ** 2 / 2 + (1 / 3) ** 2 / 2)
    assert found.half == pytest.approx(t.ppf(0.975, freedom) * math.sqrt(4 / 3 + 1 / 3))


def test_the_difference_is_that_of_the_means_of_the_ranking():
    """Of common seeds alone it would have the other sign."""
    table = finals(a={1: 72.0, 2: 72.1, 3: 72.2}, b={1: 70.0, 2: 70.1, 3: 70.0, 4: 90.0, 5: 90.0})
    assert difference(table, "a", "b").mean == pytest.approx(72.1 - 78.02)


def test_common_seeds():
    five = {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}
    others = {"one": {7: 7.0}, "diverged": {1: 1.0, 2: math.inf}, "none": {}}
    found = on_common_seeds(finals(five=five, three={2: 2.0, 3: 3.0, 9: 9.0}, **others))
    kept = {"five": {2: 2.0, 3: 3.0}, "three": {2: 2.0, 3: 3.0}, **others}
    assert {name: found[name].dropna().to_dict() for name in found} == kept
    apart = finals(a={1: 1.0, 2: 2.0}, b={2: 2.0, 3: 3.0})
    assert on_common_seeds(apart).equals(apart)


# ranking ------------------------------------------------------------------------------------------------------
def test_one_seed_tells_nothing():
    table = finals(a=(1.0,), b=(2.0,))
    assert differs(table, "a", "b") is None
    assert ranking(table, more=True) == {"b": "best", "a": "unclear"}


def test_level_second_lower_and_unclear():
    table = finals(
        low=(50.0, 50.1, 50.2),
        best=(90.0, 90.1, 90.2),
        level=(90.3, 89.6, 90.1),
        second=(80.0, 80.1, 80.3),
        beside=(80.2, 79.9, 80.1),
        noisy=(95.0, 60.0, 70.0),
        diverged=(1.0, math.inf, 1.0),
    )
    places = {
        "best": "best",
        "level": "level",
        "second": "second",
        "beside": "second",
        "noisy": "unclear",
        "low": "lower",
    }
    assert ranking(table, more=True) == places
    assert list(ranking(table, more=True)) == list(places)


def test_second_ends_where_one_can_be_told_from_it():
    """wide is level with second, but lower is between the two and is not."""
    best, second, lower, wide = (90.0, 90.1, 90.0), (80.0, 80.1, 80.0), (78.0, 78.1, 78.0), (75.0, 79.0, 76.0)
    found = ranking(finals(best=best, second=second, lower=lower, wide=wide), more=True)
    assert found == {"best": "best", "second": "second", "lower": "lower", "wide": "lower"}


def test_less_may_be_better():
    found = ranking(finals(a=(1.0, 1.1, 1.2), b=(2.0, 2.1, 2.2)), more=False)
    assert found == {"a": "best", "b": "second"}


def test_nothing_finite_has_no_ranking():
    assert ranking(finals(a=(math.inf,), b={}), more=True) == {}
