"""The problem of samples that are loaded client by client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fedswe.errors import FedsweError, first_line, located
from fedswe.tasks import checks
from fedswe.tasks.client_samples import LoadedSamples, Samples
from fedswe.tasks.losses import Objective
from fedswe.tasks.network import initial_network
from fedswe.tasks.problem import Setting
from fedswe.tasks.supervised_problem import SupervisedProblem


def loaded_problem(
    clients: int,
    network: Callable[[], object],
    load: Callable[[int], Samples],
    test: Samples | None,
    objective: Objective,
    groups: Mapping[str, Any],
    scores_train: bool,
    setting: Setting,
) -> SupervisedProblem:
    net = initial_network(network, setting.seed)
    net.to(setting.device, setting.dtype)
    x = net.initial().to(device=setting.device, dtype=setting.dtype)
    first: Samples | None = None

    def check(client: int | None, samples: Samples) -> None:
        """Every client is checked when its samples are loaded: most are loaded late, or never."""
        nonlocal first
        where = "the test set" if client is None else f"client {client}"
        checks.check_samples(samples, where, first)
        with torch.enable_grad():  # they may be loaded to score a model
            checks.check_fit(net, objective, x, samples, where)
            if first is None:
                checks.probe(net, objective, x, samples)
        first = samples if first is None else first

    def loaded(client: int) -> Samples:
        try:
            return load(client)
        except FedsweError:
            raise
        except Exception as error:  # of a user's function
            reason = located(error) or first_line(error)
            raise FedsweError(f"client {client}: its samples cannot be loaded ({reason})") from None

    samples = LoadedSamples(clients, loaded, test, setting, check, groups, scores_train)
    return SupervisedProblem(samples, net, objective, setting)
