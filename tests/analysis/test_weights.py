"""How much each client counts: by the package's exact limits, and by running the rules on a record that repeats."""

import numpy as np

from fedswe.algorithms import MIFA, FedAvg, FedSWE, Keel
from fedswe.analysis.weights import STEP, client_weights
from fedswe.theory.limits import fedavg_active_limit, fedswe_trace_limit

M = 6
RNG = np.random.default_rng(5)
RECORD = RNG.random((40, M)) < np.linspace(0.1, 0.8, M)
RECORD[:, 0] |= ~RECORD.any(axis=1)  # somebody is always there


def test_fedavg_and_fedswe_have_the_limits_of_the_theory():
    weights, _ = client_weights(FedAvg(), RECORD)
    np.testing.assert_allclose(weights, fedavg_active_limit(RECORD, STEP).server.mean(axis=0) * M, rtol=1e-9)
    never = np.insert(RECORD, 2, False, axis=1)  # a client that never comes counts nothing, the others are one of m + 1
    weights, _ = client_weights(FedSWE(k=3.0), never)
    limit = fedswe_trace_limit(RECORD, STEP, 3.0).server.mean(axis=0)
    np.testing.assert_allclose(weights, np.insert(limit, 2, 0.0) * (M + 1), rtol=1e-9)


def test_keel_has_the_weights_of_its_intervals():
    """Intervals as its clients record them, over many repetitions of the record; those of other rules are not known."""
    last, recorded, counted = np.full(M, -1), np.zeros(M), np.zeros(M)
    for t, here in enumerate(np.tile(RECORD, (2000, 1))):
        recorded[here] += (t - last[here] - 1) // 3
        mean = (last + 1 + (t - last - 1) // 3 * 3) / np.maximum(recorded, 1)
        if t >= 1000 * len(RECORD):
            counted[here] += mean[here] ** 0.5 / (mean[here] ** 0.5).sum()
        last[here], recorded[here] = t, recorded[here] + 1
    weights, _ = client_weights(Keel(power=0.5, cutoff=3), RECORD)
    np.testing.assert_allclose(weights, counted / counted.sum() * M, rtol=2e-3)
    assert client_weights(MIFA(), RECORD)[0] is None
    assert client_weights(FedSWE(), np.ones((4000, 2), dtype=bool))[0] is None
