"""Which rates are tried, and which is chosen."""

from dataclasses import replace

import pytest

from fedswe.gym.gym import at_edge, best_rate, next_rates
from fedswe.gym.settings import SCALES
from tests.gym.rows import row

SCALE = replace(SCALES["ci"], rates=(0.1, 0.2, 0.4), least_trials=4, most_trials=6)


def tried(scores, **more):
    return {rate: [row(rate=rate, held_out=value, **more)] for rate, value in scores.items()}


def test_the_grid_of_the_scale_comes_first():
    assert next_rates({}, SCALE) == [0.1, 0.2, 0.4]
    assert next_rates(tried({0.2: 0.5}), SCALE) == [0.1, 0.4]


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ({0.1: 0.9, 0.2: 0.5, 0.4: 0.4}, [0.05]),
        ({0.1: 0.3, 0.2: 0.5, 0.4: 0.6}, [0.8]),
        ({0.1: 0.3, 0.2: 0.5, 0.4: 0.4}, [0.8]),  # inside, and one trial is left: the better side
        ({0.1: 0.4, 0.2: 0.5, 0.4: 0.3}, [0.05]),
        ({0.05: 0.1, 0.1: 0.4, 0.2: 0.5, 0.4: 0.3}, []),
        ({0.05: 0.6, 0.1: 0.4, 0.2: 0.5, 0.4: 0.3}, [0.025]),  # beyond the least number of trials
    ],
)
def test_it_is_extended_until_the_best_lies_inside(scores, wanted):
    assert next_rates(tried(scores), SCALE) == wanted


def test_one_trial_is_left_and_two_are_wanted():
    trials = {
        rate: [row(rate=rate, held_out=-rate), row(rate=rate, held_out=rate, output="ema")]
        for rate in (0.1, 0.2, 0.4, 0.8, 1.6)
    }
    assert next_rates(trials, SCALE) == [0.05]


def test_it_is_not_extended_for_ever():
    scores = {0.1 * 2**i: 0.1 * i for i in range(6)}
    assert next_rates(tried(scores), SCALE) == []
    assert at_edge(tried(scores)) == {max(scores)}


def test_every_served_model_must_have_its_best_rate_inside():
    trials = {
        rate: [row(rate=rate, held_out=a), row(rate=rate, held_out=b, output="ema")]
        for rate, a, b in [(0.1, 0.3, 0.9), (0.2, 0.5, 0.3), (0.4, 0.2, 0.1), (0.8, 0.1, 0.1)]
    }
    assert next_rates(trials, SCALE) == [0.05]
    assert (best_rate(trials, "server"), best_rate(trials, "ema")) == (0.2, 0.1)


def test_the_mean_over_seeds_decides_and_a_diverged_seed_rules_a_rate_out():
    trials = {
        0.1: [row(seed=3, held_out=0.5), row(seed=4, held_out=0.5)],
        0.2: [row(seed=3, held_out=0.8), row(seed=4, held_out=0.3)],
        0.4: [row(seed=3, held_out=0.9), row(seed=4, held_out=0.9, diverged=True)],
    }
    assert best_rate(trials, "server") == 0.2


def test_where_every_rate_diverged_a_smaller_one_is_tried():
    trials = tried(dict.fromkeys((0.1, 0.2, 0.4), 0.9), diverged=True)
    assert best_rate(trials, "server") is None
    assert next_rates(trials, SCALE) == [0.05]


def test_rates_with_which_nothing_was_learned_are_no_choice():
    """The best of three collapsed runs lies inside the grid by chance only."""
    trials = {rate: [row(rate, held_out=h, curve=(0.1, 0.12))] for rate, h in ((0.1, 0.11), (0.2, 0.14), (0.4, 0.1))}
    assert best_rate(trials, "server") is None
    assert next_rates(trials, SCALE) == [0.05]


def test_test_accuracy_plays_no_part():
    trials = {0.1: [row(held_out=0.4, test=0.9)], 0.2: [row(held_out=0.5, test=0.1)]}
    assert best_rate(trials, "server") == 0.2
