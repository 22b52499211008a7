"""Every sample is used exactly once, whatever alpha and however many clients."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedswe.core import keys
from fedswe.tasks.partition import dirichlet_shares, grouped_shares, partition, realised_shares, two_groups


@given(
    st.floats(1e-6, 1e6),
    st.integers(1, 300),
    st.integers(1, 12),
    st.integers(0, 400),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.booleans(),
)
def test_partition_is_exact_and_groups_share_no_class(alpha, clients, classes, samples, seed, legacy, grouped):
    labels = np.random.default_rng(seed).integers(0, classes, samples)
    rng = np.random.RandomState(seed) if legacy else keys.generator(seed, "partition")
    grouped &= min(clients, classes) > 1
    owners = two_groups(clients, classes) if grouped else np.ones((clients, classes), dtype=bool)
    shares = grouped_shares(rng, alpha, owners) if grouped else dirichlet_shares(rng, alpha, clients, classes)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(1), 1.0)
    assert (shares[~owners] == 0).all()
    parts = partition(labels, shares, owners if grouped else None)
    assert len(parts) == clients
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(samples))
    for part, own in zip(parts, owners, strict=True):
        assert own[labels[part]].all()
    realised = realised_shares(labels, parts, classes)
    filled = np.array([len(part) > 0 for part in parts])
    np.testing.assert_allclose(realised.sum(1), filled.astype(float))


def test_chunks_follow_the_shares_in_data_set_order():
    labels = np.array([0, 1] * 10)
    shares = np.array([[0.5, 0.1], [0.25, 0.4], [0.25, 0.5]])
    parts = partition(labels, shares)
    zeros = [part[labels[part] == 0].tolist() for part in parts]
    assert zeros == [[0, 2, 4, 6, 8], [10, 12, 14], [16, 18]]  # the cut at 7.5 rounds to even, 8
    assert [len(part) - len(z) for part, z in zip(parts, zeros, strict=True)] == [1, 4, 5]
