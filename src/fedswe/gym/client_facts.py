"""Who was available how often, and how a model serves each client."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fedswe.availability.schedule import Floats
from fedswe.experiment.configuration import dump
from fedswe.experiment.experiment import Experiment, populate
from fedswe.tasks.data_set import chunks

if TYPE_CHECKING:
    from fedswe.core.records import Vector
    from fedswe.tasks.supervised_problem import SupervisedProblem

_TENTH = 10


def accuracy_by_client(problem: SupervisedProblem, x: Vector) -> Floats:
    """The accuracy of a model on test samples with the labels of each client, [m]."""
    import torch

    data, shares = problem.data, problem.realised
    assert data is not None
    assert shares is not None
    right, count = (torch.zeros(shares.shape[1], device=data.y_test.device) for _ in range(2))
    with torch.no_grad():
        for part in chunks(len(data.y_test), data.y_test.device):
            labels = data.y_test[part]
            found = problem.network.logits(x.to(problem.start), data.x_test[part]).argmax(-1)
            count += torch.bincount(labels, minlength=len(count))
            right += torch.bincount(labels[found == labels], minlength=len(count))
    return np.asarray(shares @ (right / count.clamp(min=1)).cpu().numpy())


@dataclass(frozen=True, eq=False)
class ClientFacts:
    """Who was available how often, and which labels each client has: the same for all rules of a setting and seed."""

    problem: SupervisedProblem
    available: Floats  # [rounds, m]

    def summary(self, accuracy: Floats | None) -> dict[str, float]:
        """worst_tenth, rare, never, correlation; NaN of a model that diverged."""
        share = self.available.mean(0)
        if accuracy is None:
            return dict.fromkeys(("worst_tenth", "rare", "never", "correlation"), math.nan)
        varied = share.std() > 0 and accuracy.std() > 0
        few = max(len(share) // _TENTH, 1)
        seen = np.flatnonzero(share > 0)
        rare = seen[np.argsort(share[seen], kind="stable")[:few]]
        return {
            "worst_tenth": float(np.sort(accuracy)[:few].mean()),
            "rare": float(accuracy[rare].mean()) if len(rare) else math.nan,
            "never": float(accuracy[share == 0].mean()) if (share == 0).any() else math.nan,
            "correlation": float(np.corrcoef(share, accuracy)[0, 1]) if varied else math.nan,
        }


def client_facts(experiment: Experiment) -> ClientFacts:
    from fedswe.algorithms import FedAvg

    # One entry for all rules and rates.
    same = replace(experiment, algorithm=FedAvg(), local=replace(experiment.local, lr=1.0))
    return _facts_of(dump(same), same.rounds)


@lru_cache(maxsize=8)
def _facts_of(config: str, rounds: int) -> ClientFacts:
    from fedswe.engine.base import availability_of
    from fedswe.experiment.configuration import load_text
    from fedswe.tasks.supervised_problem import SupervisedProblem

    problem, schedule = populate(load_text(config, "the gym"))
    assert isinstance(problem, SupervisedProblem)
    return ClientFacts(problem, availability_of(schedule, rounds).astype(np.float64))
