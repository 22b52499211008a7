"""Masks of arrays in memory: run, continued, compared; and probabilities estimated from recorded rounds."""

import gc
from dataclasses import replace

import numpy as np
import pytest

import fedswe
from fedswe.algorithms import FedAvg, FedAvgKnown, FedSWE
from fedswe.availability import Intervals, Mask
from fedswe.availability.model import Population
from fedswe.errors import FedsweError, FedsweWarning
from fedswe.experiment.configuration import dump, load_text
from fedswe.experiment.runner import StopRun
from fedswe.tasks import Quadratic

CENTERS = Quadratic(centers=np.eye(3).tolist())
ARRAY = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 0, 1]] * 3)


def experiment(availability, **more):
    return fedswe.Experiment(rounds=12, availability=availability, task=CENTERS, **more)


def rows(e, **options):
    """The rows of the history of a run, but for their time."""
    kept = []
    fedswe.run(e, watch=lambda t, row: kept.append({**row, "seconds": 0}) if row else None, **options)
    assert kept
    return kept


def test_an_array_gives_the_run_of_the_file(tmp_path):
    np.savetxt(tmp_path / "mask.csv", ARRAY, delimiter=",")
    of_file = rows(experiment(Mask(str(tmp_path / "mask.csv"))))
    assert rows(experiment(Mask.from_array(ARRAY)), out=tmp_path / "run") == of_file


def test_a_run_of_an_array_is_continued_in_the_same_script(tmp_path):
    def stop(t, row):
        if t == 5:
            raise StopRun

    mask = Mask.from_array(ARRAY)
    fedswe.run(experiment(mask), out=tmp_path / "whole")
    with pytest.raises(StopRun):
        fedswe.run(experiment(mask), out=tmp_path / "parts", watch=stop)
    fedswe.resume(tmp_path / "parts")
    whole, parts = (np.genfromtxt(tmp_path / name / "history.csv", delimiter=",") for name in ("whole", "parts"))
    np.testing.assert_array_equal(whole[1:, :-1], parts[1:, :-1])  # the last column is the time


def test_a_configuration_of_an_array_is_read_elsewhere_and_says_what_is_missing(tmp_path):
    text = dump(experiment(Mask.from_array(ARRAY)))
    gc.collect()  # the array, which nobody uses any more
    read = load_text(text, "config.toml")
    with pytest.raises(FedsweError, match=r"made by Mask\.from_array .* exists only in the script that made it"):
        fedswe.run(read)


def test_the_array_lives_as_long_as_a_mask_uses_it():
    mask = replace(Mask.from_array(ARRAY), prob="estimate")
    gc.collect()
    assert mask.rounds() == 12


def test_contents_in_memory_are_compared_by_several_processes(tmp_path):
    log = [(device, start, start + 55) for device in range(5) for start in range(0, 500, 90 + device)]
    parts = {"mask": Mask.from_array(ARRAY), "log": Intervals.from_array(log, round_seconds=30)}
    runs = {
        f"{name} {cls.__name__}": experiment(part, algorithm=cls())
        for name, part in parts.items()
        for cls in (FedSWE, FedAvg)
    }
    several = fedswe.compare(runs, seeds=(3, 4), jobs=2, out=tmp_path / "several")
    assert several.finals.equals(fedswe.compare(runs, seeds=(3, 4), jobs=1).finals)


def test_an_array_instead_of_a_file_gets_one_line():
    with pytest.raises(FedsweError, match=r"for an array, use Mask\.from_array"):
        Mask(ARRAY)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "availability.file is missing"),
        ({"file": "a", "digest": "0"}, "give no file"),
        ({"file": "a", "prob_file": "b", "prob": "estimate"}, "exclude each other"),
        ({"file": "a", "prob_window": 3}, 'prob_window is for prob = "estimate"'),
    ],
)
def test_keys_that_do_not_fit(keys, message):
    with pytest.raises(FedsweError, match=message):
        Mask(**keys)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([[0.5, 0.5]], "has 2 columns for 3 clients"),
        ([[0.5] * 3] * 2, "has 2 rows: give one row, or 12"),
        ([[0.5, 1.5, 0.5]], r"within \[0, 1\], found 1.5"),
        ([[0.5, 0, 0.5]], "gives probability 0 to a client"),
    ],
)
def test_probabilities_that_do_not_fit(probabilities, message):
    with pytest.raises(FedsweError, match=message):
        Mask.from_array(ARRAY, probabilities)


# clients that are never available ------------------------------------------------------------------------
def test_a_mask_without_any_client_is_refused_and_never_available_clients_are_counted():
    with pytest.raises(FedsweError, match="no client is available in any of the 12 rounds"):
        Mask.from_array(0 * ARRAY).schedule(Population(3), 0)
    with pytest.warns(FedsweWarning, match="2 of 3 clients are never available in the 12 rounds"):
        Mask.from_array(ARRAY * [1, 0, 0]).schedule(Population(3), 0)


# estimated probabilities ---------------------------------------------------------------------------------
def estimate(array, window=0):
    with pytest.warns(FedsweWarning, match="estimates from the recorded rounds, not the true ones"):
        return Mask.from_array(array, prob="estimate", prob_window=window).schedule(Population(array.shape[1]), 0)


def test_over_all_rounds_the_estimate_is_laplaces_rule():
    schedule = estimate(ARRAY)
    np.testing.assert_allclose(schedule.prob(0), (ARRAY.sum(0) + 1) / 14)
    assert np.array_equal(schedule.prob(0), schedule.prob(11))
    assert schedule.sample(3).tolist() == [False, False, True]


@pytest.mark.parametrize("window", [1, 2, 3, 12, 100])
def test_over_a_window_the_estimate_uses_the_rounds_around(window):
    schedule = estimate(ARRAY, window)
    for t in range(len(ARRAY)):
        first = t - (window - 1) // 2
        around = ARRAY[max(first, 0) : first + window]
        np.testing.assert_allclose(schedule.prob(t), (around.sum(0) + 1) / (len(around) + 2))
        assert (schedule.prob(t)[schedule.sample(t)] > 0).all()


def test_estimates_let_the_algorithms_run_that_need_probabilities():
    known = FedAvgKnown()
    with pytest.raises(FedsweError, match=r'availability\.prob="estimate"'):
        fedswe.run(experiment(Mask.from_array(ARRAY), algorithm=known))
    with pytest.warns(FedsweWarning, match="estimates"):
        estimated = rows(experiment(Mask.from_array(ARRAY, prob="estimate"), algorithm=known))
    prob = (ARRAY.sum(0) + 1) / 14
    assert estimated == rows(experiment(Mask.from_array(ARRAY, [prob]), algorithm=known))
