"""Availability models: bounds, laws, and the released code's golden counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedswe.availability import (
    Alternating,
    Always,
    Cyclic,
    InterleavedSine,
    Markov,
    Mask,
    Sine,
    Staircase,
    Stationary,
)
from fedswe.availability.model import Population
from fedswe.availability.schedule import uniform_draws
from fedswe.core import keys
from fedswe.engine.base import availability_of
from fedswe.errors import FedsweError, FedsweWarning
from fedswe.tasks.partition import dirichlet_shares, partition, realised_shares

unit = st.floats(0, 1)
positive = st.floats(0, 1, exclude_min=True)
models = st.one_of(
    st.builds(Stationary, p=positive),
    st.builds(Staircase, p=positive, period=st.integers(1, 30), low=unit),
    st.builds(Sine, p=positive, gamma=st.floats(0, 0.5), period=st.integers(1, 30)),
    st.builds(InterleavedSine, p=positive, gamma=st.floats(0, 0.5), cutoff=unit),
    st.builds(Alternating, p=positive, period=st.integers(1, 20).map(lambda h: 2 * h)),
    st.builds(
        lambda p, h: Alternating(p=p, period=2 * h, inside="staircase", stair_period=h), positive, st.integers(2, 20)
    ),
    st.builds(Cyclic, p=positive, groups=st.integers(1, 9)),
    st.builds(Markov, p=positive, on=st.floats(0.01, 1)),
    st.builds(Always),
)


@given(models, st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(0, 500))
def test_probabilities_and_samples(model, m, seed, t):
    schedule = model.schedule(Population(m), seed)
    prob, present = schedule.prob(t), schedule.sample(t)
    assert prob.shape == present.shape == (m,)
    assert ((prob >= 0) & (prob <= 1)).all()
    assert not present[prob == 0].any()
    assert present[prob == 1].all()
    np.testing.assert_array_equal(model.schedule(Population(m), seed).sample(t), present)


@given(models, st.integers(0, 1000))
def test_rounds_can_be_asked_for_in_any_order(model, seed):
    who = Population(6)
    forward = availability_of(model.schedule(who, seed), 12)
    schedule = model.schedule(who, seed)
    for t in (11, 3, 7, 0, 11, 5):
        np.testing.assert_array_equal(schedule.sample(t), forward[t])


@pytest.mark.parametrize(
    "model", [Stationary(p=0.3), Sine(p=0.6), Staircase(p=0.6), Markov(p=0.3, on=0.2), Cyclic(p=0.5, groups=4)]
)
def test_frequencies_follow_the_probabilities(model):
    m, rounds = 400, 200
    schedule = model.schedule(Population(m), 9)
    present = availability_of(schedule, rounds)
    expected = np.stack([schedule.prob(t) for t in range(rounds)])
    # Chains of one client are correlated over time, clients are not: the spread is over clients.
    per_client = present.mean(0) - expected.mean(0)
    assert abs(per_client.mean()) < 4 * per_client.std() / m**0.5 + 1e-12


def test_shapes_of_the_dynamics():
    sine = [Sine(gamma=0.3).factor(t, 1) for t in (0, 5, 10, 15)]
    np.testing.assert_allclose(sine, [0.7, 1.0, 0.7, 0.4])
    assert [Staircase().factor(t, 1) for t in (0, 9, 10, 19, 20)] == [1.0, 1.0, 0.4, 0.4, 1.0]
    two = Alternating(period=4)
    np.testing.assert_array_equal([two.factor(t, 4) for t in range(4)], [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2)
    stairs = Alternating(inside="staircase")
    assert [stairs.factor(t, 2).max() for t in (0, 24, 25, 49, 50, 74, 75)] == [1, 1, 0.4, 0.4, 1, 1, 0.4]
    cyclic = [Cyclic(groups=3).factor(t, 3).tolist() for t in range(3)]
    assert cyclic == np.eye(3).tolist()
    interleaved = InterleavedSine(p=0.2, gamma=0.3, cutoff=0.1)
    probs = [float(interleaved.probabilities(t, np.array([0.2]))[0]) for t in (0, 5, 15)]
    np.testing.assert_allclose(probs, [0.14, 0.2, 0.0])
    assert InterleavedSine(cutoff=0.1).probabilities(5, np.array([0.1])) == [0.1]  # at the cutoff, not below
    assert two.factor(0, 3).tolist() == [1, 1, 0]  # of an odd number the first group has one more


@pytest.mark.parametrize("stair_period", [1, 19, 50])
def test_a_staircase_without_a_step_is_refused(stair_period):
    with pytest.raises(FedsweError, match=rf"stair_period must be from 2 to 18 .* not {stair_period}"):
        Alternating(period=20, inside="staircase", stair_period=stair_period)
    steps = {float(Alternating(period=20, inside="staircase", stair_period=18).factor(t, 2).max()) for t in range(20)}
    assert steps == {1.0, 0.4}


@pytest.mark.parametrize("p", [0, 0.0, [0.0, 0.0]])
def test_clients_that_are_never_available_are_refused(p):
    with pytest.raises(FedsweError, match="no client would ever be available"):
        Stationary(p=p)
    assert Stationary(p=[0.0, 0.5]).schedule(Population(2), 0).prob(0).tolist() == [0.0, 0.5]


@pytest.mark.parametrize("rows", [["0.2,0.5,0.9"], ["0.2,0.5,0.9", "0.3,0.5,1"]])
def test_probabilities_of_a_mask_are_one_row_or_one_per_round(rows, tmp_path):
    (tmp_path / "mask.csv").write_text("1,0,1\n0,1,1\n")
    (tmp_path / "prob.csv").write_text("\n".join(rows))
    schedule = Mask(str(tmp_path / "mask.csv"), str(tmp_path / "prob.csv")).schedule(Population(3), 0)
    assert [",".join(f"{p:g}" for p in schedule.prob(t)) for t in range(2)] == [rows[0], rows[-1]]


def test_markov_persists():
    """A chain with turn-on 0.05 and p = 1/2 stays as it is with probability 0.95."""
    present = availability_of(Markov(p=0.5, on=0.05).schedule(Population(500), 2), 200)
    stays = (present[1:] == present[:-1]).mean()
    assert abs(stays - 0.95) < 0.005


def test_markov_starts_in_its_stationary_law():
    first = Markov(p=0.8, on=0.05).schedule(Population(4000), 2).sample(0)
    assert abs(first.mean() - 0.8) < 0.03


SVHN_CLASSES = [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659]
GOLDEN = [
    ("cifar10", 3, Stationary, [37, 45, 50, 38, 45, 40]),
    ("cifar10", 3, Sine, [24, 33, 43, 36, 42, 40]),
    ("cifar10", 4, Stationary, [41, 50, 40, 35, 37, 44]),
    ("cifar10", 4, Sine, [31, 41, 31, 34, 38, 44]),
    ("cifar10", 6, Stationary, [45, 51, 42, 38, 47, 56]),
    ("cifar10", 6, Sine, [32, 38, 34, 42, 46, 56]),
    ("svhn", 3, Stationary, [40, 47, 50, 38, 45, 38]),
]
FIRST_P = {
    3: [0.326512, 0.195533, 0.360414, 0.549693, 0.487022],
    4: [0.4944, 0.706477, 0.401438, 0.386031, 0.59066],
    6: [0.503795, 0.212102, 0.416554, 0.503968, 0.631284],
}


def legacy_population(data, seed):
    labels = np.repeat(np.arange(10), SVHN_CLASSES if data == "svhn" else 5000)
    rng = np.random.RandomState(seed)
    drawn = dirichlet_shares(rng, 0.1, 100, 10)
    return Population(100, drawn, realised_shares(labels, partition(labels, drawn), 10), rng)


@pytest.mark.parametrize(("data", "seed", "model", "counts"), GOLDEN)
def test_legacy_stream_reproduces_the_released_code(data, seed, model, counts):
    schedule = model(stream="legacy").schedule(legacy_population(data, seed), seed)
    assert availability_of(schedule, 6).sum(1).tolist() == counts
    if data == "cifar10" and model is Stationary:
        np.testing.assert_allclose(schedule.prob(0)[:5], FIRST_P[seed], atol=6e-7)


def test_label_driven_probabilities_use_the_named_proportions():
    rng = np.random.default_rng(0)
    drawn, realised = rng.dirichlet(np.ones(10), 5), rng.dirichlet(np.ones(10), 5)
    who = Population(5, drawn, realised)
    a = Stationary(proportions="realised").schedule(who, 3).prob(0)
    b = Stationary(proportions="drawn").schedule(who, 3).prob(0)
    phi = np.linalg.lstsq(realised, a, rcond=None)[0]
    assert a.shape == (5,)
    np.testing.assert_allclose(realised @ phi, a)
    assert np.abs(a - b).max() > 1e-3


def test_the_later_half_of_the_classes_weighs_at_most_half():
    """Clients of one class each: p_i is the weight of class i. Of three classes two belong to the first half."""
    weights = np.stack([Stationary().schedule(Population(3, realised=np.eye(3)), seed).prob(0) for seed in range(40)])
    assert (weights.max(axis=0) > 0.5).tolist() == [True, True, False]


def test_without_labels_the_probabilities_are_uniform_draws_of_the_seed_and_a_warning_says_so():
    with pytest.warns(FedsweWarning, match=r"no labels.*U\(0\.1, 1\): set availability\.p"):
        prob = [Stationary().schedule(Population(5000), seed).prob(0) for seed in (3, 3, 4)]
    assert np.array_equal(prob[0], prob[1])
    assert not np.array_equal(prob[0], prob[2])
    assert prob[0].min() >= 0.1
    assert abs(prob[0].mean() - 0.55) < 0.02


def test_proportions_that_a_task_does_not_have_are_refused():
    with pytest.raises(FedsweError, match='proportions = "drawn" is not known for this task'):
        Stationary(proportions="drawn").schedule(Population(2, realised=np.eye(2)), 3)


@pytest.mark.parametrize("m", [1, 1 << 15, (1 << 15) + 1, 100_000])
def test_draws_do_not_depend_on_the_blocks_they_are_made_in(m):
    np.testing.assert_array_equal(uniform_draws(3, 7, m), keys.uniform(3, "availability", 7, np.arange(m)).numpy())
