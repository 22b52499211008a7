"""fedswe theory staleness: the numbers are those of fedswe.theory and of the trace."""

import numpy as np
import pytest

from fedswe.theory.staleness import echo_counts, echo_quantiles, staleness_moments

TWO = ["stationary", "availability.p=[0.1,0.9]"]


def test_staleness(values, theory):
    said = values("staleness", *TWO, "--horizon", 50, "--quantiles", "0.5,0.9,1")
    prob = np.tile([[0.1, 0.9]], (50, 1))
    exact = staleness_moments(prob)
    first, second = said["staleness"]
    assert first["largest"] == pytest.approx(exact[0][49].max())
    assert second["mean"] == pytest.approx(exact[1][:50].mean())  # rounds 0..49, as of a trace
    assert (first["client"], first["round"]) == (0, 49)
    assert [first["bound"], second["bound"]] == pytest.approx([10, 190])
    echoes = [entry["echo"] for entry in said["echo_quantiles"]]
    assert echoes == list(echo_quantiles(echo_counts(prob).sum(axis=1), [0.5, 0.9, 1]))
    # client 1 can never be there: staleness has an answer all the same, bounds have not
    assert "no bounds: client 1 has probability 0" in theory("staleness", "stationary", "availability.p=[0.5,0.0]")


def test_staleness_of_a_trace(values, mask):
    said = values("staleness", *mask[0], "--quantiles", "0.5")
    assert [of["participations"] for of in said["by_client"]] == mask[1].sum(axis=0).tolist()
    gaps = np.concatenate([np.diff(np.flatnonzero(column), prepend=-1) for column in mask[1].T])
    assert said["echo_quantiles"][0]["echo"] == np.quantile(gaps, 0.5, method="inverted_cdf")
    assert said["tau_max"] >= gaps.max()


def test_staleness_of_chains(values):
    """Two-state chains: E[t - tau(t)] = 1 + (1 - p)(1 - (1 - on)^t)/on, five times what coins would give."""
    said = values("staleness", "markov", "availability.p=[0.5,0.5]", "availability.on=0.1", "--horizon", 100)
    t = np.arange(100)
    exact = np.mean(1 + 0.5 * (1 - 0.9**t) / 0.1)
    moment = said["staleness"][0]
    assert abs(moment["mean"] - exact) < 4 * moment["standard_error"] < 1.5
    assert moment["independent_coins"] == pytest.approx(2, abs=0.05)
