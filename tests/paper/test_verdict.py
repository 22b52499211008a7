"""How margins make the status of a place, and places that of a claim."""

import math
from types import SimpleNamespace

import pytest

from fedswe.results.table import quantile
from fedswe_paper.claims import Verdict
from fedswe_paper.margin import Finding, Margin, Spread, at_least, both, combined, every, exact, margin
from fedswe_paper.measurements import Statistic

YES, NO, OPEN, LOST = "holds", "does not hold", "undecided", "diverged, undecided"


@pytest.mark.parametrize(
    ("statuses", "needed", "status"),
    [
        ([YES, YES], 2, YES),
        ([YES, NO], 2, NO),
        ([YES, OPEN], 2, OPEN),
        ([YES, LOST], 2, LOST),
        ([OPEN, LOST], 2, LOST),
        ([OPEN, LOST, NO], 3, NO),
        ([NO, LOST, YES], 1, YES),
        ([NO, NO], 1, NO),
        ([NO, OPEN], 1, OPEN),
        ([NO, LOST], 1, LOST),
        ([YES, YES, YES, YES, NO, NO], 4, YES),
        ([YES, YES, YES, NO, NO, NO], 4, NO),
        ([YES, YES, YES, OPEN, NO, NO], 4, OPEN),
        ([YES, YES, YES, LOST, NO, OPEN], 4, LOST),
    ],
)
def test_parts_are_combined(statuses, needed, status):
    assert combined(statuses, needed) == status
    assert combined(statuses[::-1], needed) == status


def of(values, std=math.nan, longest=0):
    """A line with these numbers by seed, whose rows elsewhere have this spread."""
    return SimpleNamespace(values=values, std=std, longest=longest, full_rounds=0, periodic=False)


@pytest.fixture(autouse=True)
def spreads(monkeypatch):
    monkeypatch.setattr("fedswe_paper.margin.spread", lambda measured, line, of: Spread(line.std, 20))


def difference(ours, theirs, resolution=0.0, **more):
    measured = SimpleNamespace(
        alike=lambda lines, _: lines, values=lambda line, _: line.values, longest=lambda line: line.longest
    )
    statistic = Statistic(len, resolution=resolution)
    return margin(measured, "", (1.0, ours, statistic), (-1.0, theirs, statistic), **more)


def test_three_seeds_have_their_own_error_and_fewer_the_pooled_one():
    ours, theirs = of({3: 5.0, 4: 6.0, 6: 7.0}, 9.0), of({3: 1.0, 4: 1.0, 6: 1.0}, 9.0)
    own = difference(ours, theirs)
    assert (own.mean, own.error, own.freedom) == (5.0, pytest.approx(1 / math.sqrt(3)), 2)
    two = difference(of({3: 5.0, 4: 6.0}, 9.0), theirs)
    assert (two.mean, two.error, two.freedom) == (4.5, pytest.approx(9.0), 20)  # 9 √2 / √2
    assert difference(of({3: 5.0}), theirs).status == OPEN  # no spread is known
    assert difference(of({5: 5.0}), theirs) is None


def test_a_margin_is_decided_outside_its_interval():
    for mean, status in ((4.4, YES), (4.2, OPEN), (-4.2, OPEN), (-4.4, NO), (math.nan, LOST)):
        assert Margin("", mean, 1.0, 2, (3, 4, 6)).status == status
    assert quantile(2) == pytest.approx(4.3027, abs=1e-4)
    assert Margin("", 5.0, 1.0, 2, (3, 4, 6), threshold=1.0).status == OPEN
    assert Margin("", 0.0, 0.0, 2, (3, 4, 6)).status == OPEN  # a tie
    assert [exact("", value, 1.0).status for value in (2.0, 1.0, 0.0)] == [YES, OPEN, NO]


def test_a_number_is_no_finer_than_it_is_measured():
    """First rounds at evaluations every 20: three equal differences are not without error."""
    found = difference(*(of({3: at, 4: at, 6: at}) for at in (120.0, 100.0)), resolution=20.0)
    assert found.error == pytest.approx(20 * math.sqrt(2 / 12) / math.sqrt(3))
    assert found.status == OPEN


def test_never_bounds_a_margin_from_one_side():
    never, early = of(dict.fromkeys((3, 4, 6), math.inf), longest=1000), of(dict.fromkeys((3, 4, 6), 100.0))
    later, sooner = difference(never, early), difference(early, never)
    assert (later.mean, later.beyond, later.status) == (900.0, "at least", YES)
    assert (sooner.mean, sooner.beyond, sooner.status) == (-900.0, "at most", NO)
    assert difference(never, early, threshold=950.0).status == OPEN  # it may be beyond that
    assert difference(never, never).status == OPEN


def test_the_deciding_margin_is_the_one_with_the_least_to_spare():
    strong, weak, bad = (Margin(str(mean), mean, 1.0, 2, (3, 4, 6)) for mean in (9.0, 5.0, -6.0))
    lost = Margin("lost", math.nan, 1.0, 2, (3, 4, 6))
    assert every([strong, weak]).deciding is weak
    assert every([strong, weak, bad]).deciding is bad
    assert every([strong, lost]).deciding is lost
    assert at_least(1, [weak, strong, bad]).deciding is strong
    assert both(every([strong]), at_least(1, [bad, weak])).status == YES
    assert every([strong, None]) is None
    assert both(every([strong]), None) is None
    assert every([strong, lost, None]).status == LOST  # also where a row is missing
    assert every([strong, lost, None]).deciding is lost
    assert both(every([lost]), None).status == both(None, every([lost])).status == LOST
    places = Finding(YES, (strong,), place="a"), Finding(YES, (weak,), place="b")
    assert Verdict(YES, places).deciding == ("b", weak)
    assert Verdict(YES, places, somewhere=True).deciding == ("a", strong)
    assert Verdict("not yet measured").deciding is None
