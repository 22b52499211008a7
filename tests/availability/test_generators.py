"""Generators: each follows its law, keeps its guarantee, and gives the same rounds in any order."""

import math
from pathlib import Path

import numpy as np
import pytest

from fedswe import registry
from fedswe.availability import (
    Adversarial,
    Always,
    Cyclic,
    DailyMarkov,
    JoinLeave,
    Markov,
    Outages,
    Sampled,
    Sine,
    Stationary,
)
from fedswe.availability.markov import DailyChains
from fedswe.availability.model import Population
from fedswe.engine.base import availability_of
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import populate
from fedswe.theory.assumption import delta_profile, realised_staleness, smallest_period, window_delta

PEERS = Path(__file__).parents[2] / "examples" / "availability"
PLUGINS = {
    "of_data": ("LowestLabel", "LabelCount", "LabelTurns", "DataSize", "LogNormal"),
    "turns": ("Periodic", "RoundRobin", "Incremental", "Regularised"),
    "never_empty": ("NeverEmpty",),
}
PEER_NAMES = [f"{PEERS}/{file}.py:{name}" for file, names in PLUGINS.items() for name in names]
LowestLabel, LabelCount, LabelTurns, DataSize, LogNormal, Periodic, RoundRobin, Incremental, Regularised, NeverEmpty = (
    registry.resolve("availability", name) for name in PEER_NAMES
)
RECORDS = ("mask", "intervals")
NAMES = [name for name in registry.names("availability") if name not in RECORDS] + PEER_NAMES


def population(m, seed=0):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(10, 0.1), m)
    shares[shares < 0.02] = 0
    return Population(m, shares, shares, sizes=rng.integers(1, 60, m))


def made(name):
    return registry.instance("availability", name, "availability")


@pytest.mark.parametrize("m", [1, 2, 30])
@pytest.mark.parametrize("name", NAMES)
def test_every_model_gives_the_same_rounds_in_any_order(name, m):
    model, who = made(name), population(m)
    forward = availability_of(model.schedule(who, 5), 60)
    schedule = model.schedule(who, 5)
    for t in (59, 3, 40, 0, 59, 12):
        np.testing.assert_array_equal(schedule.sample(t), forward[t])
        prob = schedule.prob(t)
        known = ~np.isnan(prob)
        assert ((prob[known] >= 0) & (prob[known] <= 1)).all()
        assert not forward[t][prob == 0].any()
        assert forward[t][prob == 1].all()
    assert forward.dtype == bool
    assert forward.shape == (60, m)


@pytest.mark.parametrize(
    "model",
    [
        DailyMarkov(amplitude=0.8, short_sessions=0.4, short_outages=0.3, never=0.1),
        Periodic(p=0.3, period=20),
        Regularised(period=7),
        LogNormal(),
        DataSize(),
        LowestLabel(),
        LabelTurns(),
        JoinLeave(Sine(p=0.7), join_rounds=30, stay_rounds=40),
        NeverEmpty(Stationary(p=0.02)),
        NeverEmpty(Markov(p=0.05, on=0.1)),
        Sampled(Always(), number=4),
        Outages(Stationary(p=0.6), regions=3, share=0.3, length=4),
    ],
)
def test_frequencies_follow_the_probabilities(model):
    """Over seeds, as some models draw once for a whole run: the mean number available, standardised."""
    m, rounds = 24, (0, 1, 13, 29)
    who = population(m)
    seeds = 150
    distance = np.zeros((seeds, len(rounds)))
    for seed in range(seeds):
        schedule = model.schedule(who, seed)
        distance[seed] = [(schedule.sample(t) - schedule.prob(t)).sum() for t in rounds]
    spread = distance.std(axis=0) / math.sqrt(seeds)
    assert (np.abs(distance.mean(axis=0)) < 4 * spread + 1e-12).all()


# chains with a day -----------------------------------------------------------------------------------------
MEANS = np.array([0.01, 0.1, 0.3, 0.7, 0.97])


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"short_sessions": 0.5, "short_session": 0.1, "short_outages": 0.6, "short_outage": 0.05, "amplitude": 1.0},
        {"session_hours": 0.01, "amplitude": 1.0, "exponent": 0.0},
        {"round_seconds": 18_000.0, "short_outages": 0.9, "short_outage": 0.01},
    ],
)
def test_the_law_of_the_chains_is_known_at_every_hour(keys):
    copies = 20_000
    model = DailyMarkov(**keys)
    m = copies * len(MEANS)
    chains = DailyChains(model, np.tile(MEANS, copies), np.ones(m, dtype=bool), 1)
    for t in range(40):
        drawn = chains.sample(t).reshape(copies, -1).mean(axis=0)
        prob = chains.prob(t)[: len(MEANS)]
        assert (np.abs(drawn - prob) < 4.5 * np.sqrt(prob * (1 - prob) / copies)).all()


def test_the_mean_over_a_day_is_the_mean_availability():
    schedule = DailyMarkov(amplitude=0.7).schedule(Population(50), 3)
    day = np.stack([schedule.prob(t) for t in range(144)])
    assert day.mean() == pytest.approx(1 / 6, abs=0.06)  # of Beta(1, 5)
    assert (day.max(axis=0) > day.min(axis=0)).all()
    assert day[18].mean() == day.mean(axis=1).max()  # at three o'clock
    np.testing.assert_allclose(schedule.prob(3 + 144), schedule.prob(3))


def test_sessions_and_outages_have_the_lengths_they_say():
    """Without a day: means as said, and a share of short stays that shows in the first rounds."""
    m, rounds, mean = 4000, 400, 0.4
    plain = DailyMarkov(session_hours=2.0, exponent=0.0, amplitude=0.0)
    mixed = DailyMarkov(session_hours=2.0, exponent=0.0, amplitude=0.0, short_sessions=0.5, short_session=1 / 12)
    for model, one_round in ((plain, 1 / 12), (mixed, 0.5 + 0.5 / 23)):
        chains = DailyChains(model, np.full(m, mean), np.ones(m, dtype=bool), 2)
        rows = availability_of(chains, rounds)
        begins = rows[1:-1] & ~rows[:-2]
        assert rows[1:-1][begins].mean() == 1
        per_session = rows.sum() / begins.sum() * (rounds - 2) / rounds
        assert per_session == pytest.approx(12, rel=0.03)
        assert (~rows[2:])[begins].mean() == pytest.approx(one_round, abs=0.01)


def test_clients_with_more_time_have_longer_sessions():
    mean = np.repeat([0.1, 0.5], 2000)
    chains = DailyChains(DailyMarkov(session_hours=3.0, exponent=0.5, amplitude=0.0), mean, mean > 0, 4)
    rows = availability_of(chains, 300)
    begins = (rows[1:] & ~rows[:-1]).reshape(299, 2, -1).sum(axis=(0, 2))
    lengths = rows[1:].reshape(299, 2, -1).sum(axis=(0, 2)) / begins
    assert lengths == pytest.approx([18 / 3, 18], rel=0.06)


# guarantees ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("delta", "period", "groups"), [(0.1, 20, 2), (0.25, 10, 3), (0.3, 7, 1), (1.0, 5, 4), (0.01, 30, 5)]
)
def test_the_adversary_keeps_its_guarantee_and_no_more(delta, period, groups):
    schedule = Adversarial(delta, period, groups).schedule(Population(11), 0)
    table = np.stack([schedule.prob(t) for t in range(6 * period)])
    np.testing.assert_array_equal(availability_of(schedule, 6 * period), table)
    rounds = math.ceil(delta * period - 1e-9)
    assert window_delta(table, period) == rounds / period >= delta
    assert smallest_period(delta_profile(table), delta) <= period
    assert (table.reshape(6, period, 11).sum(axis=1) == rounds).all()
    if groups > 1 and rounds < period:
        absent = realised_staleness(table)[period:].max()  # t - tau of the round that ends the absence
        assert absent == 2 * (period - rounds) + 1


def test_the_adversary_keeps_similar_clients_together():
    labels = np.array([3, 0, 2, 1, 3, 0])
    who = Population(6, realised=np.eye(4)[labels])
    schedule = Adversarial(0.2, 10, 2).schedule(who, 0)
    assert labels[schedule.sample(0)].tolist() == [0, 1, 0]
    assert labels[schedule.sample(9)].tolist() == [3, 2, 3]


@pytest.mark.parametrize(("m", "period"), [(10, 5), (11, 4), (3, 8), (1, 1)])
def test_regularised_clients_are_there_once_in_every_window(m, period):
    schedule = Regularised(period).schedule(Population(m), 2)
    rows = availability_of(schedule, 20 * period).reshape(20, period, m)
    assert (rows.sum(axis=1) == 1).all()
    dealt = rows.sum(axis=2)
    assert dealt.max() - dealt.min() <= 1
    if m > 1 < period:
        assert len({row.tobytes() for row in rows}) > 1


# models on top of others -----------------------------------------------------------------------------------
def test_outages_take_whole_regions_for_their_length():
    share, length = 0.2, 8.0
    schedule = Outages(Always(), regions=4, share=share, length=length).schedule(Population(12), 1)
    rows = availability_of(schedule, 4_000)
    regions = rows[:, :4]
    np.testing.assert_array_equal(rows, np.tile(regions, 3))
    assert (~regions).mean() == pytest.approx(share, abs=0.03)
    begins = (~regions[1:] & regions[:-1]).sum()
    assert (~regions).sum() / begins == pytest.approx(length, rel=0.15)
    assert abs(np.corrcoef(regions.T)[0, 1]) < 0.15  # regions are independent


def test_outages_do_not_use_the_draws_of_the_base():
    base, m = Stationary(p=0.5), 40
    alone = availability_of(base.schedule(Population(m), 7), 300)
    rows = availability_of(Outages(base, regions=40, share=0.5, length=2).schedule(Population(m), 7), 300)
    assert not (rows & ~alone).any()
    assert rows[alone].mean() == pytest.approx(0.5, abs=0.04)


def test_clients_join_and_leave_once():
    model = JoinLeave(Always(), present=0.3, join_rounds=50, stay_rounds=30)
    rows = availability_of(model.schedule(Population(3000), 1), 400)
    assert rows[0].mean() == pytest.approx(0.3, abs=0.03)
    assert ((rows[1:] & ~rows[:-1]).sum(axis=0) + rows[0] == 1).all()  # none comes back
    assert not rows[-1].any()
    assert rows.sum(axis=0).mean() == pytest.approx(30, rel=0.06)
    assert rows[50:].any(axis=1)[:20].all()
    forever = availability_of(
        JoinLeave(Always(), present=0, join_rounds=3, stay_rounds=0).schedule(Population(90), 1), 5
    )
    assert forever.sum(axis=1).tolist()[0] == 0
    assert forever[3].all()


def test_a_sample_of_the_available():
    base = Stationary(p=[1.0] * 6 + [0.5] * 6 + [0.0] * 3)
    schedule = Sampled(base, number=8).schedule(Population(15), 1)
    rows, there = (availability_of(one, 2000) for one in (schedule, base.schedule(Population(15), 1)))
    assert not (rows & ~there).any()
    np.testing.assert_array_equal(rows.sum(axis=1), np.minimum(8, there.sum(axis=1)))
    crowded = there.sum(axis=1) == 10
    assert rows[crowded][there[crowded]].mean() == pytest.approx(0.8)
    chosen = rows[crowded][:, :6].mean(axis=0)
    assert np.abs(chosen - 0.8).max() < 5 * 0.4 / math.sqrt(crowded.sum())
    assert np.isnan(schedule.prob(0)).all()
    assert Sampled(Always(), number=1).schedule(Population(4), 1).prob(0).tolist() == [0.25] * 4
    assert Sampled(base, number=15).schedule(Population(15), 1).prob(0).tolist() == base.p


def test_empty_rounds_are_filled_with_one_client():
    model = NeverEmpty(Stationary(p=0.01))
    rows = availability_of(model.schedule(Population(5), 3), 3000)
    assert (rows.sum(axis=1) >= 1).all()
    assert np.ptp(rows.mean(axis=0)) < 0.06
    assert np.isnan(NeverEmpty(Outages()).schedule(population(3), 1).prob(0)).all()


def test_a_base_with_the_released_codes_stream_is_refused():
    with pytest.raises(FedsweError, match="legacy"):
        Outages(Stationary(stream="legacy"))


def test_what_depends_on_what_is_known():
    assert Outages(Always()).dependence() == "clients"
    assert JoinLeave(Markov()).dependence() == DailyMarkov().dependence() == "rounds"
    assert JoinLeave(Sine()).dependence() == "none"


# models of peers, in examples/availability -------------------------------------------------------------------
LABELS = np.array([[0.5, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.2, 0.8, 0.0], [0.25, 0.25, 0.25, 0.25]])
WHO = Population(4, realised=LABELS, sizes=np.array([4, 1, 16, 9]))


def probabilities(model, t=0, who=WHO):
    return model.schedule(who, 0).prob(t).tolist()


def test_probabilities_of_labels_and_sizes():
    assert probabilities(LowestLabel(0.1)) == pytest.approx([0.1, 0.4, 0.4, 0.1])
    assert probabilities(LabelCount(0.4)) == pytest.approx([0.8, 0.7, 0.8, 1.0])
    assert probabilities(DataSize(0.5)) == pytest.approx([0.5, 0.25, 1.0, 0.75])
    assert probabilities(DataSize(-0.5)) == pytest.approx([0.5, 1.0, 0.25, 1 / 3])
    # r = (1 + t mod 24) / 24, labels over 3: client 1 has its turn at r = 1/3 only.
    inside = np.array([probabilities(LabelTurns(0.5), t) for t in range(48)]) == 1
    assert inside[:, 0].all()
    assert np.flatnonzero(inside[:, 1]).tolist() == [7, 31]
    assert np.flatnonzero(inside[:24, 2]).tolist() == list(range(7, 16))


def test_the_number_of_samples_is_that_of_the_task():
    problem, schedule = populate(
        load(None, [f"availability.name={PEERS}/of_data.py:DataSize", "task.clients=6", "availability.exponent=1"])
    )
    sizes = problem.samples.sizes(np.arange(6))
    np.testing.assert_array_equal(problem.sizes, sizes)
    np.testing.assert_allclose(schedule.prob(0), sizes / sizes.max())


def test_the_day_of_24_rounds_is_that_of_the_released_codes():
    flat, day = LogNormal(0.25, day=False).schedule(WHO, 0).prob(0), LogNormal(0.25).schedule(WHO, 0)
    assert flat.max() == 1
    factors = [float(day.prob(t)[flat.argmax()]) for t in range(48)]
    times = np.linspace(0, 2 * np.pi, 24)
    np.testing.assert_allclose(factors, np.tile(0.4 * np.sin(times) + 0.5, 2))
    spread = np.log(LogNormal(0.5, day=False).schedule(Population(20_000), 1).prob(0)).std()
    assert spread == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("model", [LowestLabel(), LabelCount(), LabelTurns(), DataSize()])
def test_what_a_task_does_not_have_is_said(model):
    with pytest.raises(FedsweError, match="needs a task"):
        model.schedule(Population(3), 0)


def test_probabilities_of_fedau():
    who = population(400)
    p = Stationary(p="dirichlet").schedule(who, 3).prob(0)
    assert p.min() == 0.02
    assert p.max() <= 1
    means = [Stationary(p="dirichlet").schedule(who, seed).prob(0).mean() for seed in range(60)]
    assert np.mean(means) == pytest.approx(0.1, abs=0.03)  # raised by the floor, lowered by the limit of 1
    np.testing.assert_array_equal(Markov(p="dirichlet").schedule(who, 3).prob(0), p)
    with pytest.raises(FedsweError, match="no legacy stream"):
        Stationary(p="dirichlet", stream="legacy")


def test_turns_of_fedau_begin_once_and_repeat():
    p = [0.0, 0.001, 0.25, 0.9, 1.0]
    rows = availability_of(Periodic(p=p, period=20).schedule(Population(5), 3), 420)
    lengths = [0, 1, 5, 18, 20]
    for i, (on, period) in enumerate(zip(lengths, (20, 20, 20, 20, 21), strict=True)):
        column = rows[:, i]
        first = int(column.argmax())
        assert first < period - on or on == 0
        assert column[first : first + 19 * period].sum() == 19 * on
        np.testing.assert_array_equal(column[first : first + 19 * period], column[first + period :][: 19 * period])


def test_round_robin():
    rows = availability_of(RoundRobin(interval=2, overlap=2, start=1).schedule(Population(3), 0), 8).astype(int)
    assert rows.tolist() == [[0, 0, 0]] + [[1, 1, 0]] * 2 + [[0, 1, 1]] * 2 + [[1, 0, 1]] * 2 + [[1, 1, 0]]


def test_incremental_arrival_and_departure():
    arrival = availability_of(Incremental("arrival", 3, 2, 2).schedule(Population(4), 0), 7).astype(int)
    assert arrival.sum(axis=1).tolist() == [2, 2, 2, 3, 3, 4, 4]
    assert arrival[3].tolist() == [1, 1, 1, 0]
    departure = availability_of(Incremental("departure", 3, 2, 2).schedule(Population(4), 0), 7).astype(int)
    assert departure.sum(axis=1).tolist() == [4, 4, 4, 3, 3, 2, 2]
    assert departure[3].tolist() == [1, 1, 1, 0]


def test_groups_of_several_rounds():
    """gFedAvg's periodic availability: five groups, 100 rounds on and 400 off."""
    rows = availability_of(Cyclic(p=1.0, groups=5, turn=100).schedule(Population(10), 0), 1000)
    assert rows[:100, [0, 5]].all()
    assert (rows.sum(axis=0) == 200).all()
    assert Cyclic(turn=100).cycle() == 500


def test_markov_participation_of_dpfl():
    """Both states are kept with probability 0.8."""
    rows = availability_of(Markov(p=0.5, on=0.2).schedule(Population(500), 2), 200)
    assert (rows[1:] == rows[:-1]).mean() == pytest.approx(0.8, abs=0.01)
