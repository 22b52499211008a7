"""GHBM and LocalGHBM: every local step adds the mean displacement of the server's model over several rounds."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from fedswe.algorithms.fedavg import FedAvg
from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector, parts
from fedswe.core.value import Count, Decay


@cache
def server_of(tau: int) -> type[Any]:
    """The server's record: model, pace, and the models of the tau rounds before this one, past1 the newest."""
    # A field for each: a round renames them and copies nothing.
    return make_dataclass("Server", ["x", "pace", *(f"past{k}" for k in range(1, tau + 1))], frozen=True)


@dataclass(frozen=True)
class Broadcast:
    x: Vector
    drift: Vector  # added to every local gradient


@dataclass(frozen=True)
class Report:
    progress: Vector
    pace: Scalar


def pace_of(done: Done, x: Vector) -> Scalar:
    """1 / (s eta_l): times this, a displacement in one round is a direction of each of its s steps."""
    return x.new_ones((*x.shape[:-1], 1)) / (done.steps * done.lr)


@dataclass(frozen=True)
class GHBM(Algorithm):
    """Generalised heavy-ball momentum: local steps with the mean displacement over a window of tau rounds.

        m = (x^t - x^{t-tau}) / tau,   0 in rounds t < tau
        y_i = y_i - eta_l gradient + (beta / s) m          s local steps from y_i = x^t, which end at end_i
        x^{t+1} = x^t + lr (1/|A|) sum_A (end_i - x^t)

    The local rate does not scale the momentum: the s steps of a round add beta m, for any s and eta_l. A drift is
    multiplied by eta_l in each step, so the server sends -beta m / (s eta_l). It takes s eta_l from the last reports.

    The authors advise tau = 1/(share of the clients in a round), so that a window holds about all clients, and run
    FedCM as tau = 1; with one local step that is heavy-ball momentum at the server (fedavg:chain=[momentum]). A round
    without reports counts in the window; x stays.

    Deviation: the published clients divide by their own s eta_l. With a decaying rate the momentum here is multiplied
    by this round's rate over that of the last round with reports, which is near 1; in a Flower app with unequal s, by a
    client's own s eta_l times the mean of 1/(s eta_l) over the last reports.
    """

    beta: Decay = 0.9  # share of the mean displacement that a round repeats
    tau: Count = 10  # rounds of the window; as many models at the server

    home: ClassVar[Literal["client", "server"]] = "client"  # there is no client state
    members_change: ClassVar[bool] = True
    needs_plain_sgd: ClassVar[bool] = True
    title: ClassVar[str] = "GHBM: generalised heavy-ball momentum"
    citation: ClassVar[str] = (
        "Zaccone, Karimireddy, Masone, Ciccone. Communication-Efficient Heterogeneous Federated Learning with "
        "Generalized Heavy-Ball Momentum. Transactions on Machine Learning Research 2025. (Signs and scale as in the "
        "released code.)"
    )

    def server_init(self, x0: Vector) -> Any:
        return server_of(self.tau)(x0, x0.new_zeros((*x0.shape[:-1], 1)), *[x0] * self.tau)

    def downlink(self, s: Any, at: ServerView) -> Broadcast:
        x, pace, *past = parts(s).values()
        share = self.beta / self.tau if at.t >= self.tau else 0.0
        return Broadcast(x, drift=share * pace * (past[-1] - x))

    def plan(self, c: Any, d: Broadcast, at: ClientView) -> Job:
        return Job(d.x, drift=d.drift)

    def report(self, c: Any, d: Broadcast, job: Job, done: Done, at: ClientView) -> tuple[Any, Report]:
        return c, Report(done.end - job.start, pace_of(done, done.end))

    def merge(self, s: Any, total: Report, count: float, at: ServerView) -> Update:
        x, pace, *past = parts(s).values()
        after = type(s)(x, total.pace / count if count else pace, x, *past[:-1])
        return Update(after, x, total.progress if count else None, over=count or 1)


@dataclass(frozen=True)
class Client:
    x: Vector  # the model received at the client's last participation; x^0 before the first
    last: Scalar  # the round of it, -1 before the first
    pace: Scalar  # 1 / (s eta_l) of that round; 0 before the first, so that there is no momentum


@dataclass(frozen=True)
class LocalGHBM(FedAvg):
    """GHBM with the window at the client: from the model it received at its last participation to this one.

        m_i = (x^t - x^{last_i}) / (t - last_i),   0 at the first participation
        y_i = y_i - eta_l gradient + (beta / s) m_i          s local steps from y_i = x^t, which end at end_i
        x^{t+1} = x^t + lr (1/|A|) sum_A (end_i - x^t)

    Each client has the window of its own absence, tau_i = t - last_i; only models travel, as in FedAvg. As in GHBM the
    s steps add beta m_i, for any s and eta_l, where s eta_l is that of the client's last participation: with a decaying
    rate m_i is multiplied by this round's rate over that one.

    Deviation: the released code multiplies by the share of the clients in a round in place of 1/(t - last_i).

    It is not the same authors' FedHBM, which looks back from the iterate of each local step to the end of the client's
    own last training: that momentum changes within a round, and a drift does not.
    """

    beta: Decay = 0.9  # share of the mean displacement that a round repeats

    needs_plain_sgd: ClassVar[bool] = True
    title: ClassVar[str] = "LocalGHBM: GHBM with each client's own window"
    citation: ClassVar[str] = GHBM.citation

    def client_init(self, x0: Vector) -> Client:
        none = x0.new_zeros((*x0.shape[:-1], 1))
        return Client(x0, last=none - 1, pace=none)

    def plan(self, c: Client, d: Model, at: ClientView) -> Job:
        return Job(d.x, drift=self.beta * c.pace / (at.t - c.last) * (c.x - d.x))

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        return Client(d.x, last=at.t, pace=pace_of(done, done.end)), Model(done.end - job.start)
