"""The expected weight of a client in a round, against enumeration and the Poisson-binomial distribution."""

import itertools
import time

import numpy as np
import pytest

from fedswe.theory.limits import aggregation_weights, jacobi_quadrature, joint_aggregation_weights


@pytest.mark.parametrize("k", [0.0, 0.3, 1.0, 7.5, 100.0])
def test_aggregation_weights_by_enumeration(k: float) -> None:
    rng = np.random.default_rng(0)
    for clients in (1, 2, 3, 6):
        table = rng.random((3, clients))
        table[0, 0], table[1, -1] = 0.0, 1.0
        weights, joint = np.zeros_like(table), [np.zeros((clients, clients)) for _ in table]
        for t, prob in enumerate(table):
            for flags in itertools.product([0, 1], repeat=clients):
                here = np.array(flags)
                chance = np.where(here, prob, 1 - prob).prod()
                if here.any():
                    weights[t] += chance * here / (here.sum() + k)
                    joint[t] += chance * np.outer(here, here) / (here.sum() + k)
        assert aggregation_weights(table, k) == pytest.approx(weights, rel=1e-12)
        assert np.stack(joint_aggregation_weights(table, k)) == pytest.approx(np.stack(joint), rel=1e-12)


def test_aggregation_weights_by_the_poisson_binomial_distribution() -> None:
    """m = 1000 within seconds; the distribution of |A| without client i by convolution, for a few clients."""
    prob = np.random.default_rng(1).random(1000) ** 3
    began = time.process_time()  # its own time: tests share the machine
    weights = aggregation_weights(prob[None], 2.5)[0]
    assert time.process_time() - began < 10
    for i in (0, 17, 999):
        others = np.ones(1)
        for p in np.delete(prob, i):
            others = np.convolve(others, [1 - p, p])
        assert weights[i] == pytest.approx(prob[i] * (others / (np.arange(1000) + 1 + 2.5)).sum(), rel=1e-11)


def test_the_quadrature_is_exact_for_polynomials() -> None:
    for count, k in itertools.product([1, 2, 5, 40], [0.0, 0.5, 30.0]):
        nodes, weights = jacobi_quadrature(count, k)
        for degree in {0, 1, 2 * count - 1}:
            assert weights @ nodes**degree == pytest.approx(1 / (k + degree + 1), rel=1e-12)
