"""Numbers of stored runs: which runs a description names, pairing by seed, and runs that diverged."""

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from experiments.findings import Number, StoredNumbers, level, line_of, paired

from fedswe.errors import FedsweError
from fedswe.results.table import quantile
from fedswe_paper.results import CampaignStore, merge
from tests.paper.handmade import Story
from tests.paper.test_store import put

STORED = Path(__file__).parents[2] / "experiments" / "results"


def store(out: Path, text: str, seeds: dict[int, float], nan_from: float = math.inf, rounds: int = 0) -> None:
    """Runs with these test accuracies in percent at their end."""
    for seed, accuracy in seeds.items():
        cell = replace(line_of(text).cell, rounds=rounds)
        put(CampaignStore(out), cell, Story(accuracy, nan_from=nan_from), seed)
    merge(out)


def test_words_name_a_line():
    line = line_of("svhn sine k100 eta-g2 server train alpha=0.05")
    assert (line.cell.algorithm, line.cell.k, line.cell.reading, line.cell.alpha) == ("fedswe", 100, "eta-g2", 0.05)
    assert line.column == "server_train_accuracy"
    assert line_of("svhn sine k0").output == "client_mean"
    assert line_of("svhn sine fedavg").output == "server"
    assert line_of("cifar10 sine k0 text").cell.profile == "paper"
    assert line_of("fashion_mnist sine mifa").cell.scale == "small"
    assert line_of("svhn periodic-static mifa rounds=5000").cell.rounds == 5000


@pytest.mark.parametrize(
    "text", ["svhn sine fedsgd", "svhn moon k0", "svhn sine k0 median", "svhn sine fedavg eta-g2", "mnist sine k0"]
)
def test_other_words_are_refused(text, tmp_path):
    with pytest.raises(FedsweError):
        StoredNumbers(tmp_path).score(text)


def test_levels_have_the_deviation_and_differences_the_error():
    ours = pd.Series({3: 1.0, 4: 2.0, 6: 3.0})
    assert level(ours) == Number(2.0, 1.0, (3, 4, 6))
    apart = paired(ours, 0 * ours)
    assert apart.mean == 2.0
    assert apart.spread == pytest.approx(1 / math.sqrt(3))
    assert str(apart) == "+2.0 ± 0.6"
    assert str(paired(ours[:1], pd.Series({3: 1.5}))) == "−0.5"
    assert str(Number(-0.04, signed=True)) == "0.0"  # with a sign it would say on which side
    with pytest.raises(FedsweError, match=r"seeds \[3, 4\] are compared with seeds \[3\]"):
        paired(ours[:2], ours[:1])


def test_scores_and_differences_of_stored_runs(tmp_path):
    store(tmp_path, "svhn sine k0", {3: 86.0, 4: 87.0, 6: 88.0})
    store(tmp_path, "svhn sine fedavg", {3: 84.0, 4: 85.0, 6: 86.0})
    stored = StoredNumbers(tmp_path)
    assert str(stored.score("svhn sine k0")) == "87.0 ± 1.0"
    assert str(stored.gap("svhn sine k0", "svhn sine fedavg")) == "+2.0 ± 0.0"
    assert str(stored.off("svhn sine k0")) == "+1.4"  # the paper has 85.6


@pytest.mark.parametrize(("away", "far"), [(1.0, False), (3.0, True), (-3.0, True)])
def test_a_level_is_compared_with_the_published_one_by_both_spreads(tmp_path, away, far):
    """The paper has 85.6 with a standard deviation of its own; three seeds on both sides."""
    theirs = StoredNumbers(tmp_path).published("svhn sine k0")
    middle = theirs.mean + away
    store(tmp_path, "svhn sine k0", {3: middle - theirs.spread, 4: middle, 6: middle + theirs.spread})
    stored = StoredNumbers(tmp_path)
    assert stored.far_off("svhn sine k0") is far
    error = theirs.spread * math.sqrt(2 / 3)
    assert (abs(away) > quantile(4) * error) is far  # equal spreads: Welch's four degrees of freedom


def test_one_seed_is_never_taken_for_three(tmp_path):
    store(tmp_path, "svhn sine k0", {3: 86.0})
    stored = StoredNumbers(tmp_path)
    assert str(stored.score("svhn sine k0", [3])) == "86.0"
    with pytest.raises(FedsweError, match=r"svhn sine k0: of the seeds \[3, 4, 6\], \[3\] are stored"):
        stored.score("svhn sine k0")


def test_a_run_that_diverged_has_no_accuracy(tmp_path):
    store(tmp_path, "svhn sine k0", {3: 86.0, 4: 87.0})
    store(tmp_path, "svhn sine k0", {6: 6.7}, nan_from=0)
    stored = StoredNumbers(tmp_path)
    assert stored.diverged("svhn sine k0") == [6]
    with pytest.raises(FedsweError, match=r"svhn sine k0 diverged with seeds \[6\]"):
        stored.score("svhn sine k0")


def test_runs_of_different_lengths_are_not_subtracted(tmp_path):
    store(tmp_path, "svhn periodic-static k0", {3: 50.0}, rounds=5000)
    store(tmp_path, "svhn periodic-static k1", {3: 60.0})
    with pytest.raises(FedsweError, match="k1 has 10000 rounds, svhn periodic-static k0 has 5000"):
        StoredNumbers(tmp_path).gap("svhn periodic-static k1", "svhn periodic-static k0", [3])
    store(tmp_path, "svhn periodic-static k1", {3: 57.0}, rounds=5000)
    there = StoredNumbers(tmp_path)
    assert there.gap("svhn periodic-static k1 rounds=5000", "svhn periodic-static k0", [3]).mean == pytest.approx(7.0)
    assert there.score("svhn periodic-static k1", [3]).mean == pytest.approx(60.0)


def test_a_run_has_numbers_before_it_diverged():
    stored, text = StoredNumbers(STORED), "cifar10 periodic-static k100"
    last = stored.last_finite(text)
    assert 3000 < last < 5000
    assert 10 < stored.at(text, 3000) < 100
    assert stored.at(text, 3000, "consensus_clients") > 0
    with pytest.raises(FedsweError, match="k100 has diverged before round 5000"):
        stored.at(text, 5000)
    with pytest.raises(FedsweError, match=r"diverged with seeds \[3\]"):
        stored.swing(text, [3])


def test_the_papers_rounds_to_an_accuracy():
    stored = StoredNumbers(STORED)
    assert stored.published_first("svhn sine k0", 80) == "820"
    assert stored.published_first("cifar10 sine fedavg", 60) == "1060"
    with pytest.raises(FedsweError, match="table7 of the paper has no number for svhn-sine-fedswe-k0-"):
        stored.published_first("svhn sine k0", 81)


def test_one_phase_of_the_turns_swings_less_than_all():
    stored = StoredNumbers(STORED)
    line = "svhn periodic-static k100 server rounds=5000"
    history = stored.runs(line, [3])[3].history
    values = [history["server_test_accuracy"][history["round"] == t].item() for t in range(2600, 5001, 100)]
    slope, middle = statistics.linear_regression(range(len(values)), values)
    left = [value - slope * i - middle for i, value in enumerate(values)]
    expected = 100 * math.sqrt(sum(value**2 for value in left) / len(values))
    assert stored.swing_at_one_phase(line, [3])[3] == pytest.approx(expected)
    assert expected < stored.swing(line, [3])[3]
