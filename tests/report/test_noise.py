"""Who is best within the noise, on numbers whose answer is known."""

import math

import pytest

from fedswe.report.noise import Ranking, difference, differs, on_common_seeds, ranking


def seeds(*values):
    return dict(enumerate(values))


def test_differences_are_taken_seed_by_seed():
    """The seeds differ by ten points, the two rules by one in every seed."""
    a, b = seeds(10.0, 20.0, 30.0), seeds(9.0, 19.1, 28.9)
    found = difference(a, b)
    assert found.mean == pytest.approx(1.0)
    assert found.half == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-3)
    assert differs(a, b)


def test_without_common_seeds_the_interval_is_welchs():
    found = difference({1: 10.0, 2: 12.0, 3: 14.0}, {4: 1.0, 5: 3.0})
    assert found.mean == pytest.approx(10.0)
    se = math.sqrt(4 / 3 + 2 / 2)
    freedom = (4 / 3 + 1) ** 2 / ((4 / 3) ** 2 / 2 + 1)
    from scipy.stats import t

    assert found.half == pytest.approx(t.ppf(0.975, freedom) * se)


def test_the_difference_is_that_of_the_means_of_the_ranking():
    """Of common seeds alone it would have the other sign."""
    found = difference({1: 72.0, 2: 72.1, 3: 72.2}, {1: 70.0, 2: 70.1, 3: 70.0, 4: 90.0, 5: 90.0})
    assert found.mean == pytest.approx(72.1 - 78.02)


def test_common_seeds():
    finals = {
        "five": {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0},
        "three": {2: 2.0, 3: 3.0, 9: 9.0},
        "one": {7: 7.0},
        "diverged": {1: 1.0, 2: math.inf},
        "none": {},
    }
    assert on_common_seeds(finals) == finals | {"five": {2: 2.0, 3: 3.0}, "three": {2: 2.0, 3: 3.0}}
    apart = {"a": {1: 1.0, 2: 2.0}, "b": {2: 2.0, 3: 3.0}}
    assert on_common_seeds(apart) == apart


def test_one_seed_tells_nothing():
    assert differs(seeds(1.0), seeds(2.0)) is None
    assert ranking({"a": seeds(1.0), "b": seeds(2.0)}, more_is_better=True) == Ranking("b", (), ("a",))


def test_level_second_lower_and_unclear():
    found = ranking(
        {
            "low": seeds(50.0, 50.1, 50.2),
            "best": seeds(90.0, 90.1, 90.2),
            "level": seeds(90.3, 89.6, 90.1),
            "second": seeds(80.0, 80.1, 80.3),
            "beside": seeds(80.2, 79.9, 80.1),
            "noisy": seeds(95.0, 60.0, 70.0),
            "diverged": seeds(1.0, math.inf, 1.0),
        },
        more_is_better=True,
    )
    assert found == Ranking("best", ("level",), ("noisy",), ("second", "beside"), ("low",))
    places = [found.place(name) for name in ("best", "level", "second", "beside", "noisy", "low", "diverged")]
    assert places == ["first", "first", "second", "second", "unclear", "", ""]
    assert found.behind == ("second", "beside", "low")


def test_second_ends_where_one_can_be_told_from_it():
    """wide is level with second, but lower is between the two and is not."""
    found = ranking(
        {
            "best": seeds(90.0, 90.1, 90.0),
            "second": seeds(80.0, 80.1, 80.0),
            "lower": seeds(78.0, 78.1, 78.0),
            "wide": seeds(75.0, 79.0, 76.0),
        },
        more_is_better=True,
    )
    assert found == Ranking("best", (), (), ("second",), ("lower", "wide"))


def test_less_may_be_better():
    found = ranking({"a": seeds(1.0, 1.1, 1.2), "b": seeds(2.0, 2.1, 2.2)}, more_is_better=False)
    assert found == Ranking("a", (), (), ("b",))


def test_nothing_finite_has_no_ranking():
    assert ranking({"a": seeds(math.inf), "b": {}}, more_is_better=True) is None
