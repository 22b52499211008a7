"""Debiased FedAvg: weight a client by the inverse of how often it has taken part so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms.fedavg import Averaging
from fedswe.core.algorithm import ClientView, Done, Job
from fedswe.core.records import Model, Scalar, Vector


@dataclass(frozen=True)
class Client:
    visits: Scalar  # rounds in which the client has reported


@dataclass(frozen=True)
class DebiasedFedAvg(Averaging):
    """Weight each client by the inverse of its empirical frequency, this round included.

        x = x + lr (1/m) sum_A (end_i - x) / f_i;   f_i = (reports of i in rounds 0..t) / (t + 1)

    At its first report in round t a client has the weight t + 1. Like FedAU's weights, without a cutoff.

    Deviations: the weight multiplies the progress; the paper multiplies the rate of every local step by it, which is
    the same for one local step. The paper has the same number of clients in every round, which cancels from its weights
    and its average; here the number varies, and the sum is divided by m.
    """

    title: ClassVar[str] = "Debiased FedAvg: inverse empirical frequencies"
    citation: ClassVar[str] = (
        "Sun, Zhang, Xu, Joshi, Sharma, Wei. Debiasing Federated Learning with Correlated Client "
        "Participation. ICLR 2025."
    )

    def client_init(self, x0: Vector) -> Client:
        return Client(visits=x0.new_zeros((*x0.shape[:-1], 1)))

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        visits = c.visits + 1
        return Client(visits), Model((at.t + 1) / visits * (done.end - job.start))
