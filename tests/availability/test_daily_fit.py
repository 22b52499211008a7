"""Fitting the chains: parameters are found again, and times that were not observed do not count."""

import numpy as np
import pytest

from fedswe.availability import DailyMarkov
from fedswe.availability.daily_fit import edges, fit, generated, rhythm
from fedswe.availability.model import Population
from fedswe.availability.statistics import Record, Runs, transitions


def record(model, m, rounds, seed=7, seen=None):
    schedule = model.schedule(Population(m), seed)
    if seen is None:
        return Record(Runs.drawn(schedule.sample, m, rounds), None, 600.0)
    available = Runs.drawn(lambda t: schedule.sample(t) & seen[t], m, rounds)
    return Record(available, Runs.drawn(lambda t: seen[t], m, rounds), 600.0)


TRUE = DailyMarkov(
    alpha=2.0,
    beta=4.0,
    session_hours=1.5,
    exponent=0.3,
    short_outages=0.5,
    short_outage=0.1,
    amplitude=0.3,
    peak_hour=5.0,
    start_hour=2.0,
)


def test_the_parameters_of_generated_clients_are_found_again():
    found = fit(record(TRUE, 1500, 300), 600.0, start_hour=2.0)
    assert found.alpha / (found.alpha + found.beta) == pytest.approx(1 / 3, abs=0.02)
    assert found.alpha + found.beta == pytest.approx(6.0, rel=0.25)
    assert found.session_hours == pytest.approx(1.5, rel=0.15)
    assert found.exponent == pytest.approx(0.3, abs=0.1)
    assert found.short_outages == pytest.approx(0.5, abs=0.12)
    assert found.amplitude == pytest.approx(0.3, abs=0.06)
    assert found.peak_hour == pytest.approx(5.0, abs=1.0)
    assert found.never == 0


def test_rounds_that_were_not_observed_are_no_outages():
    """Each client is observed for a third of the time: taken as unavailable, the mean would be a third."""
    m, rounds = 400, 300
    seen = (np.arange(rounds)[:, None] // 100) == np.arange(m) % 3
    part = record(TRUE, m, rounds, seen=seen)
    found = fit(part, 600.0, start_hour=2.0)
    assert found.alpha / (found.alpha + found.beta) == pytest.approx(1 / 3, abs=0.05)
    copy = generated(found, part, 300, 1)
    assert copy.observed is not None
    assert (copy.seen.count == 100).all()
    stays = [transitions(one.available, one.seen)[0] for one in (part, copy)]
    assert stays[0] == pytest.approx(stays[1], abs=0.02)


def test_clients_that_are_never_there_are_told_from_rare_ones():
    never = DailyMarkov(alpha=4.0, beta=4.0, session_hours=1.0, never=0.3, amplitude=0.0)
    found = fit(record(never, 600, 200), 600.0, 0.0)
    assert found.never == pytest.approx(0.3, abs=0.05)
    assert found.alpha / (found.alpha + found.beta) == pytest.approx(0.5, abs=0.03)


def test_the_rhythm_of_a_day():
    t = np.arange(288)
    wave = 0.5 + 0.25 * np.cos(2 * np.pi * (t - 30) / 144)
    rows = np.arange(1000) < 1000 * wave[:, None]
    amplitude, peak = rhythm(Record(Runs.drawn(lambda t: rows[t], 1000, 288)), 600.0)
    assert amplitude == pytest.approx(0.5, abs=0.01)
    assert peak == pytest.approx(5.0, abs=0.05)
    assert rhythm(Record(Runs.drawn(lambda t: rows[t], 1000, 100)), 600.0) == (0.0, 0.0)


def test_the_share_of_the_time_outside_of_sessions():
    rows = np.array([[0, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]], dtype=bool).T
    assert edges(Record(Runs.drawn(lambda t: rows[t], 3, 6))) == pytest.approx(3 / 8)
