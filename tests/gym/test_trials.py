"""Which trials are run, and which is chosen."""

import math
from dataclasses import replace

import pytest

from fedswe.core.transforms import Momentum, Warmup
from fedswe.gym.gym import Tuning
from fedswe.gym.rules import Rule
from fedswe.gym.settings import SCALES, Setting
from fedswe.gym.trial import Trial, best
from tests.gym.rows import row

SEARCH = SCALES["full"].search
SCALE = replace(SCALES["ci"], tuning_seeds=(1, 2), seeds=(3, 4), search=replace(SEARCH, trials=13))


def searched(score, search=SEARCH):
    """All trials of a search, in the order they are wanted, and their scores."""
    scores = {}
    while wanted := search.walk(scores)[1]:
        assert not set(wanted) & scores.keys()
        scores |= {trial: score(trial) for trial in wanted}
    return scores


def test_the_rates_of_the_scale_come_first():
    assert SEARCH.walk({}) == (set(), [Trial(0.1), Trial(0.2), Trial(0.4)])
    assert SEARCH.walk({Trial(0.2): 0.5}) == ({Trial(0.2)}, [Trial(0.1), Trial(0.4)])


@pytest.mark.parametrize(("wanted", "rates"), [(0.2, 0), (0.4, 1), (0.8, 2), (6.4, 2), (0.1, 1), (0.025, 2)])
def test_rates_are_extended_while_the_best_is_at_the_edge(wanted, rates):
    scores = searched(lambda trial: -abs(math.log(trial.rate / wanted)), replace(SEARCH, trials=1))
    found = [trial.rate for trial in scores if trial == Trial(trial.rate)]
    assert len(found) == 3 + rates
    assert min(found, key=lambda rate: abs(math.log(rate / wanted))) == best(scores, scores).rate


def test_coordinates_are_searched_in_turn_and_the_best_values_kept():
    wanted = Trial(0.2, server_rate=2.0, momentum=0.5, warmup=0.05, schedule="constant")

    def score(trial):
        same = [
            getattr(trial, name) == getattr(wanted, name) for name in ("server_rate", "momentum", "warmup", "schedule")
        ]
        return sum(same) - abs(math.log(trial.rate / wanted.rate))

    scores = searched(score)
    assert best(scores, scores) == wanted
    assert len(scores) == 13
    assert {wanted.times(0.5), wanted.times(2)} <= scores.keys()  # the last trials: rates beside the best trial


def test_every_rule_has_as_many_trials_whatever_it_scores():
    for score in (
        lambda t: 0.0,
        lambda t: -math.inf,
        lambda t: t.rate,
        lambda t: -t.rate,
        lambda t: t.momentum - t.warmup,
    ):
        assert len(searched(score)) == 13


def test_where_every_rate_failed_smaller_ones_are_tried():
    scores = searched(lambda trial: -math.inf, replace(SEARCH, trials=1))
    assert min(trial.rate for trial in scores) == 0.025
    assert best(scores, scores).rate == 0.025


def test_a_trial_changes_a_run_and_keeps_what_is_the_rules_own():
    rule = Rule("fedavg:lr=0.03:chain=[adam:eps=0.001]")
    trial = Trial(0.4, server_rate=2.0, momentum=0.5, warmup=0.25, schedule="constant")
    found = Setting(SCALES["ci"], "digits", "sine").experiment(rule.table, trial, 7, ("server",))
    first, adam, last = found.algorithm.chain
    assert (first, type(adam).__name__, last) == (Momentum(0.5), "Adam", Warmup(3))
    assert found.algorithm.lr == pytest.approx(0.06)
    assert (found.local.lr, found.local.schedule, found.seed) == (0.4, "constant", 7)
    plain = Setting(SCALES["ci"], "digits", "sine").experiment(
        Rule("fedavg").table, Trial(0.4, warmup=0.0), 7, ("server",)
    )
    assert plain.algorithm.chain == ()


def test_names_of_trials_differ():
    trials = searched(lambda trial: trial.momentum)
    assert len({trial.name for trial in trials}) == len(trials)
    assert Trial(0.2).name == "rate 0.2"
    assert (
        Trial(0.2, 4.0, 0.5, 0.0, "constant").name
        == "rate 0.2, server_rate 4, momentum 0.5, warmup 0, schedule constant"
    )


# what follows from the measurements --------------------------------------------------------------------------
def tuning(scores, **more):
    """Measured with both seeds for tuning, at the score and 0.1 above it."""
    rows = {
        trial: [row(trial=trial, seed=seed, held_out=of + 0.1 * (seed - 1), **more) for seed in (1, 2)]
        for trial, of in scores.items()
    }
    return Tuning(SCALE, rows)


def test_a_trial_counts_when_all_seeds_for_tuning_have_run():
    found = tuning({Trial(0.1): 0.5, Trial(0.2): 0.6})
    found.rows[Trial(0.4)] = [row(rate=0.4, seed=1)]
    assert found.scores == pytest.approx({Trial(0.1): 0.55, Trial(0.2): 0.65})
    assert found.next() == [(Trial(0.4), 2)]


def test_after_the_search_the_chosen_trial_is_judged_and_its_rate_doubled():
    scores = searched(lambda trial: 0.6 - abs(math.log(trial.rate / 0.2)) / 10)
    found = tuning(scores)
    trial, output = found.chosen
    assert (trial, output) == (best(scores, scores), "server")
    wanted = found.next()
    assert [(t, s) for t, s in wanted if t == trial] == [(trial, 3), (trial, 4)]
    assert {t for t, _ in wanted} <= {trial, trial.times(2)}
    for t, seed in wanted:
        found.rows.setdefault(t, []).append(row(trial=t, seed=seed))
    assert found.next() == []
    outside = trial.times(64)
    found.rows[outside] = [row(trial=outside, seed=seed, held_out=1.0) for seed in (1, 2)]
    assert found.chosen == (trial, "server")  # only trials of the search are chosen


def test_the_served_model_and_the_trial_are_chosen_together():
    found = tuning({Trial(0.1): 0.5})
    found.rows[Trial(0.2)] = [
        row(rate=0.2, seed=seed, output=output, held_out=held_out)
        for seed in (1, 2)
        for output, held_out in (("server", 0.3), ("ema", 0.8))
    ]
    assert found.chosen == (Trial(0.2), "ema")


@pytest.mark.parametrize("more", [{"diverged": True}, {"curve": (0.1, 0.12), "held_out": 0.15}])
def test_what_diverged_or_learned_nothing_is_no_choice(more):
    """The best of several collapsed runs would be a matter of chance."""
    found = tuning({Trial(0.1): 0.5})
    found.rows[Trial(0.2)] = [row(rate=0.2, seed=1, held_out=0.9), row(rate=0.2, seed=2, **{"held_out": 0.9, **more})]
    assert found.chosen[0] == Trial(0.1)
    assert Tuning(SCALE, {Trial(0.2): found.rows[Trial(0.2)]}).chosen is None
