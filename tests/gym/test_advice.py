"""The nearest setting, and what is advised from it."""

from dataclasses import asdict

import pytest

from fedswe.comparison.labels import labelled, split_labels
from fedswe.core.transforms import Momentum, Warmup
from fedswe.experiment.configuration import read
from fedswe.gym.advice import advise, features
from fedswe.gym.trial import Trial
from tests.algorithms import ALGORITHMS


def values(mean=0.3, gini=0.2, lag=0.1, pairs=0.0, echo=20, never=0, clients=100):
    return {
        "mean_availability": mean, "gini": gini, "autocorrelation": {"1": lag}, "pairwise_correlation": pairs,
        "echo": {"p99": echo}, "never_in_a_round": never, "clients": clients,
    }  # fmt: skip


def entry(rule, test, rate=0.2, output="client_mean", regret=0.0, **trial):
    tried = asdict(Trial(rate, **trial))
    return {"rule": rule, "output": output, "trial": tried, "test": test, "regret": regret, "regret_half_width": 0.3}


def setting(task, availability, given, *rules, best):
    return {"task": task, "availability": availability, "features": features(given), "rules": rules, "best": best}


SUMMARY = {
    "recommended": "keel",
    "settings": [
        setting(
            "digits",
            "sine",
            values(),
            entry("keel", [90.0, 92.0], regret=0.5),
            entry("other", [91.0, 92.0]),
            best="other",
        ),
        setting("svhn", "sine", values(), entry("keel", [50.0], rate=0.4, output="ema"), best="keel"),
        setting("digits", "phones", values(0.15, 0.4, 0.9, 0.1, 97, 3), entry("keel", [80.0], rate=0.1), best="keel"),
    ],
}


def test_the_nearest_availability_decides():
    found = advise(values(0.17, 0.36, 0.8, 0.05, 63), SUMMARY)
    assert (found.nearest, found.rule, found.served) == ("phones", "keel", "client_mean")
    assert found.rates == pytest.approx([0.025, 0.05, 0.1])
    assert found.evidence == ["80.0 % on digits, the best there"]


def test_rates_span_those_of_all_tasks():
    found = advise(values(), SUMMARY)
    assert found.nearest == "sine"
    assert found.distance == 0
    assert found.rates == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert found.evidence == [
        "91.0 % on digits, 0.5 ± 0.3 points behind the best (other, 91.5 %)",
        "50.0 % on svhn, the best there",
    ]
    assert found.summary()["evidence"].startswith("near")


def test_the_words_of_the_advice_are_an_experiment():
    several = [entry("keel", [90.0], momentum=0.5, schedule="constant"), entry("keel", [80.0], rate=0.1)]
    several.append(entry("keel", [70.0], rate=0.4, momentum=0.5, schedule="constant"))
    tasks = [setting(f"task{i}", "sine", values(), of, best="keel") for i, of in enumerate(several)]
    words = advise(values(), {"recommended": "keel", "settings": tasks}).words(500)
    assert words[words.index("--tune") + 1] == "0.025,0.05,0.1,0.2,0.4"
    fedavg, label = split_labels(words[words.index("--algorithms") + 1])
    assert fedavg.removeprefix("fedavg") == label.removeprefix("keel")
    made = labelled(read(None, [word for word in words if word[:6] in ("local.", "rounds", "evalua")]), label)
    assert made.algorithm == ALGORITHMS["keel"](chain=(Momentum(0.5), Warmup(50)))
    assert made.local.schedule == "constant"  # that of most tasks


def test_what_is_far_is_said_to_be_far():
    assert advise(values(clients=1_000_000, mean=1e-5), SUMMARY).summary()["evidence"].startswith("nothing near")
    far = advise(values(0.001, 0.9, 0.99, 0.8, 2000, 60, clients=6), SUMMARY).summary()["evidence"]
    assert far.startswith("nothing near")
    assert "measured with 100 clients" in far
    assert "you have 6 clients" in far
