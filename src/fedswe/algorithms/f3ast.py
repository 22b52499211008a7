"""F3AST: estimate participation rates, select the clients with the lowest, weight by the inverse rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms.fedavg import Averaging
from fedswe.core.algorithm import ClientView, Done, Job
from fedswe.core.records import Model, Scalar, Vector
from fedswe.core.value import Natural, Share


@dataclass(frozen=True)
class Client:
    rate: Scalar  # r_i right after round `last`
    last: Scalar  # the last round in which the client was selected, -1 before the first


@dataclass(frozen=True)
class F3AST(Averaging):
    """Exponential averages of participation; at most `budget` available clients train, the lowest averages first.

        r_i = (1 - beta) r_i + beta 1{i in S}         S: the `budget` available clients with smallest r_i
        x   = x + lr (1/m) sum_S (end_i - x) / r_i    with the updated r_i

    An available client that is not selected does not train. Ties (all r_i are equal at first) are broken at random.
    """

    beta: Share = 0.001  # weight of the latest round in the average of participation
    budget: Natural = 10  # K_t; 0 = every available client trains
    initial_rate: Share = 1.0  # r_i before the first round; the original code starts at 1/m

    title: ClassVar[str] = "F3AST: fast federated learning under intermittent availability"
    citation: ClassVar[str] = (
        "Ribero, Vikalo, de Veciana. Federated Learning under Intermittent Client Availability and "
        "Time-Varying Communication Constraints. IEEE JSTSP 2022."
    )

    def client_init(self, x0: Vector) -> Client:
        one = x0.new_ones((*x0.shape[:-1], 1))
        return Client(rate=self.initial_rate * one, last=-one)

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        # The average decays in every round in which the client is not selected: (1 - beta)^gap covers all of them.
        rate = c.rate * (1 - self.beta) ** (at.t - c.last) + self.beta
        return Client(rate, last=at.t), Model((done.end - job.start) / rate)

    def seats(self) -> int:
        return self.budget

    def bid(self, c: Client, at: ClientView) -> Scalar:
        # In units of a thousandth of one participation, so that equal histories tie whatever the rounding.
        rate = c.rate * (1 - self.beta) ** (at.t - c.last)
        return (rate / self.beta * 1000).round()
