"""Statistics from runs of rounds equal those counted cell by cell."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedswe.availability.statistics import Record, Statistics, quantile


def tables(rounds=12, clients=3):
    return arrays(bool, st.tuples(st.integers(2, rounds), st.integers(1, clients)))


@given(tables(), st.data())
@settings(max_examples=200, deadline=None)
def test_statistics_equal_those_counted_cell_by_cell(table, data):
    seen = data.draw(arrays(bool, table.shape) | st.just(np.ones_like(table)))
    table = table & seen
    found = Statistics(Record(table, None if seen.all() else seen, round_seconds=86_400 / 4))
    rounds, m = table.shape
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found.share, table.sum(0) / seen.sum(0))
        np.testing.assert_allclose(found.population, table.sum(1) / seen.sum(1))
    both = seen[1:] & seen[:-1]
    before, after = table[:-1] & both, table[1:] & both
    same(found.stays, (before & after).sum(), before.sum())
    same(found.returns, (after & ~before).sum(), (both & ~before).sum())
    echoes, outages = [], []
    for i in range(m):
        there = np.flatnonzero(table[:, i]).tolist()
        for last, t in pairwise([-1, *there]):
            if seen[last + 1 : t, i].all():
                echoes.append(t - last)
                outages += [t - last - 1] if last >= 0 and t - last > 1 else []
    assert counted(found.echoes) == sorted(echoes)
    assert counted(found.outages) == sorted(outages)
    assert counted(found.sessions) == sorted(sessions(table))
    p = np.nan_to_num(found.share)
    for lag, correlation in zip(found.lags, found.correlation, strict=True):
        pairs = seen[lag:] & seen[:-lag]
        centred = table - p
        product = (centred[lag:] * centred[:-lag])[pairs].sum()
        spread = math.sqrt((centred[:-lag] ** 2)[pairs].sum() * (centred[lag:] ** 2)[pairs].sum())
        if spread > 1e-9:
            assert correlation == pytest.approx(product / spread, abs=1e-9)
            assert abs(correlation) < 1 + 1e-9
    weight = sum((row / row.sum() for row in table if row.any()), np.zeros(m))
    np.testing.assert_allclose(found.weight, weight / max(weight.sum(), 1e-300))
    for window, smallest in zip(found.windows, found.smallest, strict=True):
        shares = [
            table[t : t + window, i].sum() / seen[t : t + window, i].sum()
            for t in range(0, rounds - window + 1, window)
            for i in range(m)
            if table[:, i].any() and 2 * seen[t : t + window, i].sum() >= window
        ]
        assert smallest == pytest.approx(min(shares, default=math.nan), nan_ok=True)


def same(found, part, whole):
    assert math.isnan(found) if whole == 0 else found == pytest.approx(part / whole)


def counted(counts):
    return np.repeat(np.arange(len(counts)), counts).tolist()


def sessions(table):
    for column in table.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], column, [0]])))
        yield from (edges[1::2] - edges[::2]).tolist()


def test_the_mean_correlation_of_two_clients():
    rng = np.random.default_rng(0)
    together = rng.random((4000, 1)) < 0.5
    table = np.where(rng.random((4000, 20)) < 0.3, together, rng.random((4000, 20)) < 0.5)
    found = Statistics(Record(table)).pairwise
    centred = table - table.mean(0)
    matrix = np.corrcoef(centred.T)
    assert found == pytest.approx((matrix.sum() - 20) / 380, rel=1e-4)  # which weighs pairs alike
    assert 0.05 < found < 0.15


def test_the_extremes_have_statistics():
    everybody = Statistics(Record(np.ones((5, 3), dtype=bool)))
    assert (everybody.stays, everybody.echo_mean, everybody.fedavg_distance) == (1.0, 1.0, 0.0)
    assert math.isnan(everybody.returns)
    nobody = Statistics(Record(np.zeros((5, 3), dtype=bool)))
    assert nobody.effective_clients == 0
    assert quantile(nobody.echoes, 0.5) == 0
    alone = Statistics(Record(np.eye(5, 1, dtype=bool)))
    assert alone.effective_clients == pytest.approx(1)


def test_quantiles_of_counts():
    values = np.array([1, 1, 2, 5, 9, 9, 9, 30])
    for level in (0.01, 0.5, 0.9, 1.0):
        assert quantile(np.bincount(values), level) == np.quantile(values, level, method="inverted_cdf")
