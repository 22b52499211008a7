"""Echo: FedAvg whose progress is multiplied by the rounds a client missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedswe.algorithms.fedavg import Averaging
from fedswe.core.algorithm import ClientView, Done, Job
from fedswe.core.records import Model, Scalar, Vector
from fedswe.errors import require


@dataclass(frozen=True)
class Client:
    last: Scalar  # tau_i, the client's last round of participation, -1 before the first


@dataclass(frozen=True)
class Echo(Averaging):
    """FedSWE's factor without its local models: clients train from the server's model.

        x = x + lr (1/m) sum_A min(t - tau_i, cap) (end_i - x)

    Up to a client's last report the factors of its reports add up to the number of rounds, so all clients have the same
    weight over time, as with FedSWE, and with no state at the client but a round. A client that returns after a long
    absence makes a long step: `cap` bounds the factor, at the price of a bias against such clients.
    """

    cap: float = 0.0  # bound of the factor t - tau_i; 0 = off

    home: ClassVar[Literal["client", "server"]] = "client"
    title: ClassVar[str] = "Echo: FedAvg with its progress times the rounds missed"
    citation: ClassVar[str] = "None: a control for FedSWE, whose factor it has (Xiang et al., JMLR 27, 2026)."

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.cap == 0 or self.cap >= 1, f"cap must be 0 (off) or at least 1, not {self.cap:g}")

    def client_init(self, x0: Vector) -> Client:
        return Client(last=-x0.new_ones((*x0.shape[:-1], 1)))

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        missed = at.t - c.last
        if self.cap:
            missed = missed.clamp(max=self.cap)
        return Client(last=at.t), Model(missed * (done.end - job.start))
