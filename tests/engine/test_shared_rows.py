"""Shared rows behave like one vector per client."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedswe.engine.shared_rows import SharedRows

M, D = 7, 3
writes = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.sets(st.integers(0, M - 1)), st.booleans(), st.booleans()), max_size=30
)


@given(writes)
def test_equals_a_plain_table(steps):
    """Any sequence of shared and individual writes reads like m separate vectors, also after a checkpoint."""
    x0 = torch.arange(float(D))
    rows = SharedRows(M, {"x": x0, "y": x0})
    plain = {name: x0.repeat(M, 1) for name in ("x", "y")}
    vector = x0
    for number, (name, who, shared, again) in enumerate(steps):
        ids = np.array(sorted(who), dtype=np.int64)
        if shared:
            vector = vector if again else torch.full((D,), float(number))
            value = vector
        else:
            value = torch.arange(float(len(ids) * D)).view(-1, D) + 100 * number
        rows.write(name, ids, value)
        plain[name][torch.as_tensor(ids)] = value
        if number % 5 == 4:
            fresh = SharedRows(M, {"x": x0, "y": x0})
            fresh.load(rows.state())
            rows = fresh
    for name, want in plain.items():
        assert torch.equal(rows.read(name, np.arange(M)), want)
        torch.testing.assert_close(rows.mean(name), want.mean(0))
    assert rows.uses.sum() == 2 * M


def test_one_tensor_in_two_columns_is_one_row():
    rows = SharedRows(M, {"x": torch.zeros(D), "y": torch.ones(D)})
    reply = torch.full((D,), 5.0)
    rows.write("x", np.arange(M), reply)
    rows.write("y", np.arange(M), reply)
    assert np.count_nonzero(rows.uses) == 1


def test_a_tensor_whose_row_was_given_away_gets_another():
    rows = SharedRows(M, {"x": torch.zeros(D), "y": torch.ones(D)})
    reply = torch.full((D,), 5.0)
    rows.write("x", np.arange(M), reply)
    rows.write("x", np.arange(M), torch.full((M, D), 7.0))
    rows.write("y", np.array([0]), reply)
    assert rows.read("y", np.array([0])).tolist() == [[5.0] * D]


def test_a_million_clients_fit():
    rows = SharedRows(1_000_000, {"x": torch.zeros(100)})
    for t in range(20):
        rows.write("x", np.arange(t, 1_000_000, 20), torch.full((100,), float(t)))
    assert rows.table.numel() <= 64 * 100
    assert float(rows.read("x", np.array([13]))[0, 0]) == 13.0
