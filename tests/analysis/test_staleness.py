"""fedswe theory staleness: the numbers are those of fedswe.theory and of the trace."""

import numpy as np
import pytest

from fedswe.theory.staleness import echo_counts, echo_quantiles, staleness_moments

TWO = ["stationary", "availability.p=[0.1,0.9]"]


def test_staleness(values, theory):
    said = values("staleness", *TWO, "--horizon", 50, "--quantiles", "0.5,0.9,1")
    prob = np.tile([[0.1, 0.9]], (50, 1))
    moments = staleness_moments(prob)
    assert said["first_moment"]["largest"] == pytest.approx(moments.first[49].max())
    assert said["second_moment"]["mean"] == pytest.approx(moments.second[:50].mean())  # rounds 0..49, as of a trace
    assert (said["first_moment"]["client"], said["first_moment"]["round"]) == (0, 49)
    assert said["safe_bounds"] == pytest.approx([10, 190])
    echoes = [entry["echo"] for entry in said["echo_quantiles"]]
    assert echoes == list(echo_quantiles(echo_counts(prob).sum(axis=1), [0.5, 0.9, 1]))
    # client 1 can never be there: staleness has an answer all the same, bounds have not
    assert "no bounds: client 1 has probability 0" in theory("staleness", "stationary", "availability.p=[0.5,0.0]")


def test_a_printed_bound_that_is_exceeded_is_named(theory, tmp_path):
    """The counterexample of the errata, as a file of probabilities."""
    prob = np.zeros((200, 1))
    prob[:10] = prob[190:] = 1.0
    for name in ("mask.csv", "prob.csv"):
        np.savetxt(tmp_path / name, prob, fmt="%d", delimiter=",")
    words = ["mask", f"availability.file={tmp_path}/mask.csv", f"availability.prob_file={tmp_path}/prob.csv"]
    text = theory("staleness", *words, "--period", 100)
    assert "181" in text
    assert "a printed bound is exceeded" in text


def test_staleness_of_a_trace(values, mask):
    said = values("staleness", *mask[0], "--quantiles", "0.5")
    assert said["per_client"]["participations"] == mask[1].sum(axis=0).tolist()
    gaps = np.concatenate([np.diff(np.flatnonzero(column), prepend=-1) for column in mask[1].T])
    assert said["echo_quantiles"][0]["echo"] == np.quantile(gaps, 0.5, method="inverted_cdf")
    assert said["tau_max"] >= gaps.max()


def test_staleness_of_chains(values):
    """Two-state chains: E[t - tau(t)] = 1 + (1 - p)(1 - (1 - on)^t)/on, five times what coins would give."""
    said = values("staleness", "markov", "availability.p=[0.5,0.5]", "availability.on=0.1", "--horizon", 100)
    t = np.arange(100)
    exact = np.mean(1 + 0.5 * (1 - 0.9**t) / 0.1)
    moment = said["first_moment"]
    assert abs(moment["mean"] - exact) < 4 * moment["standard_error"] < 1.5
    assert moment["independent_coins"] == pytest.approx(2, abs=0.05)
