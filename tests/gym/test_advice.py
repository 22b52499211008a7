"""The nearest setting, and what is advised from it."""

import shlex

import pytest

from fedswe.core.transforms import Momentum
from fedswe.experiment.configuration import load
from fedswe.gym.advice import advise, features
from tests.algorithms import ALGORITHMS


def values(mean=0.3, gini=0.2, lag=0.1, pairs=0.0, echo=20, never=0, clients=100):
    return {
        "mean_availability": mean, "gini": gini, "autocorrelation": {"1": lag}, "pairwise_correlation": pairs,
        "echo": {"p99": echo}, "never_in_a_round": never, "clients": clients,
    }  # fmt: skip


def entry(rule, test, rate=0.2, output="client_mean", regret=0.0):
    return {"rule": rule, "output": output, "rate": rate, "test": test, "regret": regret, "regret_half_width": 0.3}


def setting(task, availability, given, *rules, best):
    return {"task": task, "availability": availability, "features": features(given), "rules": rules, "best": best}


SUMMARY = {
    "recommended": "mine",
    "settings": [
        setting(
            "digits",
            "sine",
            values(),
            entry("mine", [90.0, 92.0], regret=0.5),
            entry("other", [91.0, 92.0]),
            best="other",
        ),
        setting("svhn", "sine", values(), entry("mine", [50.0], rate=0.4, output="ema"), best="mine"),
        setting("digits", "phones", values(0.15, 0.4, 0.9, 0.1, 97, 3), entry("mine", [80.0], rate=0.1), best="mine"),
    ],
}


def test_the_nearest_availability_decides():
    found = advise(values(0.17, 0.36, 0.8, 0.05, 63), SUMMARY)
    assert (found.nearest, found.rule, found.served) == ("phones", "mine", "client_mean")
    assert found.rates == pytest.approx([0.025, 0.05, 0.1])
    assert found.evidence == ["measured on digits: mine 80.0 %, the best there"]


def test_rates_span_those_of_all_tasks():
    found = advise(values(), SUMMARY)
    assert found.nearest == "sine"
    assert found.distance == 0
    assert found.rates == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert found.evidence == [
        "measured on digits: mine 91.0 %, 0.5 ± 0.3 points behind the best, other with 91.5 %",
        "measured on svhn: mine 50.0 %, the best there",
    ]
    assert "take this with care" not in " ".join(found.sentences())


@pytest.mark.parametrize(("given", "changed"), [({}, {}), ({"mean": 0.01, "clients": 1000}, {"least": 0.0})])
def test_the_words_of_the_advice_can_be_given_to_a_shell(given, changed):
    """With few reports for the number of clients the rule does not divide its steps by that number."""
    recommended = "interval_extrapolation:chain=[momentum:0.5]"
    known = {
        "recommended": recommended,
        "settings": [setting("digits", "sine", values(), entry(recommended, [90.0]), best=recommended)],
    }
    first, alike, *_ = advise(values(**given), known).sentences()
    words = first.removeprefix("start with ").partition(", and ")[0]
    assert "'algorithm.chain=[momentum:0.5]'" in words  # zsh takes brackets for a pattern
    made = ALGORITHMS["interval_extrapolation"](chain=(Momentum(0.5),), **changed)
    assert load(None, shlex.split(words)).algorithm == made
    assert ("not 1000" in alike) == bool(changed)


def test_what_is_far_is_said_to_be_far():
    assert "take this with care" in " ".join(advise(values(0.001, 0.9, 0.99, 0.8, 2000, 60), SUMMARY).sentences())
