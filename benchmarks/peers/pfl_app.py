"""FedAvg with pfl as its PyTorch tutorial builds it: a PyTorchModel, a FederatedDataset and a SimulatedBackend."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional as F
from workloads import LEARNING_RATE, Workload, batches, build, data


class Client(PyTorchTensorDataset):
    """Shuffled batches, as many as wanted: pfl's own data set is walked through once, in order, so that a client
    of 500 samples would stop after 4 of its 10 steps of 128."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
        super().__init__((x, y))
        self.steps = steps

    def iter(self, batch_size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return itertools.islice(batches(*self.raw_data, batch_size), self.steps)


class Module(nn.Module):
    """What pfl asks of a module: its loss, and metrics (none here, nothing is evaluated)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.network(inputs), labels)

    def metrics(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
        return {}


class Clock(TrainingProcessCallback):
    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        self.times.append(time.perf_counter())
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.times.append(time.perf_counter())
        return False, Metrics()


def simulate(workload: Workload) -> list[float]:
    """The moments at the start and after every round."""
    np.random.seed(0)  # several processes must draw the same clients, which they then share out
    x, y = data(workload.name)
    module = Module(build(workload))
    clients = FederatedDataset(
        lambda client: Client(x[client], y[client], workload.steps),
        get_user_sampler("random", range(workload.clients)),
    )
    clock = Clock()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=workload.warmup + workload.rounds,
            evaluation_frequency=10**9,  # pfl evaluates every so many rounds from round 0, which is warm-up
            train_cohort_size=workload.per_round,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(clients, clients, postprocessors=[WeightByUser()]),
        # A server step of rate 1 on the mean update is the mean of the clients' models.
        model=PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=None,
            local_num_steps=workload.steps,
            local_learning_rate=LEARNING_RATE,
            local_batch_size=workload.batch,
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=workload.batch),
        callbacks=[clock],
        send_metrics_to_platform=False,  # it would print every round's metrics
    )
    return clock.times
