"""CA2FL: FedBuff calibrated by the latest update of every client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms.ace import Cached
from fedswe.algorithms.fedvarp import Server
from fedswe.core.algorithm import ServerView, Update
from fedswe.core.records import Model


@dataclass(frozen=True)
class CA2FL(Cached):
    """Calibrate the late progress of the available clients by cached updates.

        v = mean(h) + (1/|A|) sum_A (end_i - start_i - h_i);   x = x + lr v
        h_i = end_i - start_i,  start_i = x for i in A

    mean(h) is over all m clients, before this round; h_i = 0 before the first report. Rounds instead of arrivals: an
    available client trains from start_i, the model it received after its last report (x^0 before the first), sends the
    change of its update, and receives the new model. So absent clients run no code. `fedvarp` differs in that clients
    train from the newest model. With all clients always available it is FedAvg. Without reports, x stays.

    Deviations: the buffer is the round; published, it holds a fixed number of arrivals. Published with the h_i at the
    server, O(md); here each client keeps its own and sends the difference.
    """

    title: ClassVar[str] = "CA2FL: cached update calibration, in rounds"
    citation: ClassVar[str] = (
        "Wang, Cao, Wu, Chen, Chen. Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached "
        "Update Calibration. ICLR 2024."
    )

    def merge(self, s: Server, total: Model, count: float, at: ServerView) -> Update:
        if count == 0:
            return Update(s, s.x)
        return Update(Server(s.x, s.mean + total.x / at.m), s.x, s.mean + total.x / count)
