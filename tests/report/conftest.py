"""Real comparisons that several tests read, and a real browser."""

import pytest

import fedswe
from fedswe.algorithms import FedAvg, FedSWE
from fedswe.core.local import Local
from fedswe.experiment.experiment import Evaluate, Experiment
from fedswe.tasks import Digits
from tests.browser import browser, chromium

__all__ = ["browser", "chromium"]

MARKUP, EMOJI, HEBREW = "<script>alert(1)</script><b>bold</b>", "😀 & co", "שלום עולם"


def experiment(algorithm, **more):
    return Experiment(
        rounds=12,
        algorithm=algorithm,
        task=Digits(clients=10, alpha=0.5),
        local=Local(steps=2, lr=0.5),
        evaluate=Evaluate(every=1),
        **more,
    )


@pytest.fixture(scope="session")
def comparison(tmp_path_factory):
    """Three algorithms with names that must not become markup, in a directory with such a name."""
    place = tmp_path_factory.mktemp("report") / "<i>a comparison 😀"
    fedswe.compare(
        {MARKUP: experiment(FedAvg()), EMOJI: experiment(FedSWE(k=0.0)), HEBREW: experiment(FedSWE(k=5.0))},
        seeds=[3, 4],
        out=place,
        jobs=1,
    )
    return place
