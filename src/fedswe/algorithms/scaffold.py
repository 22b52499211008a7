"""SCAFFOLD and Amplified SCAFFOLD: control variates against client drift."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Nothing, Scalar, Vector
from fedswe.core.value import Count, Positive


@dataclass(frozen=True)
class Broadcast:
    """Model and control variate: SCAFFOLD's downlink, its report (as changes) and its server state."""

    x: Vector
    c: Vector


def mean_gradient(job: Job, done: Done) -> Vector:
    """The mean of the (clipped) stochastic gradients of a job: its steps were lr * (gradient + drift)."""
    drift = 0.0 if job.drift is None else job.drift
    return (job.start - done.end) / (done.steps * done.lr) - drift


@dataclass(frozen=True)
class Control:
    c: Vector  # c_i


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Correct every local gradient by the difference of the server's and the client's control variate.

        local steps with gradient + c - c_i;   c_i+ = c_i - c + (x - end_i) / (s eta_l)       (option II)
        x = x + lr (1/|A|) sum_A (end_i - x);  c = c + (1/m) sum_A (c_i+ - c_i)

    Two vectors travel each way. With gradient clipping the drift is added after the clip, so c_i+ is the mean
    of the clipped gradients.
    """

    needs_plain_sgd: ClassVar[bool] = True
    title: ClassVar[str] = "SCAFFOLD (option II)"
    citation: ClassVar[str] = (
        "Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. SCAFFOLD: Stochastic Controlled Averaging for "
        "Federated Learning. ICML 2020."
    )

    def server_init(self, x0: Vector) -> Broadcast:
        return Broadcast(x0, c=x0.new_zeros(x0.shape))

    def client_init(self, x0: Vector) -> Control:
        return Control(x0.new_zeros(x0.shape))

    def downlink(self, s: Broadcast, at: ServerView) -> Broadcast:
        return s

    def plan(self, c: Control, d: Broadcast, at: ClientView) -> Job:
        return Job(d.x, drift=d.c - c.c)

    def report(self, c: Control, d: Broadcast, job: Job, done: Done, at: ClientView) -> tuple[Control, Broadcast]:
        new = mean_gradient(job, done)
        return Control(new), Broadcast(x=done.end - job.start, c=new - c.c)

    def merge(self, s: Broadcast, total: Broadcast, count: float, at: ServerView) -> Update:
        after = Broadcast(s.x, s.c + total.c / at.m)
        return Update(after, s.x, total.x if count else None, over=count or 1)


@dataclass(frozen=True)
class WindowControl:
    c: Vector  # c_i, in force during the window `window`
    mean: Vector  # mean gradient over the client's reports in that window; c_i before the first of them
    visits: Scalar
    window: Scalar  # index of the window of the client's last report


@dataclass(frozen=True)
class WindowServer:
    x: Vector
    c: Vector
    anchor: Vector  # the model at the start of this window
    pending: Vector  # change of the mean of all c_i, in force from the next window on


@dataclass(frozen=True)
class AmplifiedScaffold(Algorithm):
    """SCAFFOLD whose control variates are means over windows of P rounds, with gFedAvg's amplification.

        local steps with gradient + c - c_i;   x = x + lr (1/|A|) sum_A (end_i - x)     each round
        after P rounds:  x = anchor + amplification (x - anchor);   anchor = x
                         c_i = mean gradient over the window for clients that reported;   c = (1/m) sum c_i

    The published reset at the end of a window happens at the client's next report; the server is sent changes of
    the running means, which add up to the reset.
    """

    amplification: Positive = 1.5  # gamma, factor of a window's displacement
    period: Count = 100  # P, rounds of a window

    needs_plain_sgd: ClassVar[bool] = True
    title: ClassVar[str] = "Amplified SCAFFOLD"
    citation: ClassVar[str] = (
        "Crawshaw, Liu. Federated Learning under Periodic Client Participation and Heterogeneous Data: A New "
        "Communication-Efficient Algorithm and Analysis. NeurIPS 2024."
    )

    def server_init(self, x0: Vector) -> WindowServer:
        zero = x0.new_zeros(x0.shape)
        return WindowServer(x0, c=zero, anchor=x0, pending=zero)

    def client_init(self, x0: Vector) -> WindowControl:
        zero, none = x0.new_zeros(x0.shape), x0.new_zeros((*x0.shape[:-1], 1))
        return WindowControl(c=zero, mean=zero, visits=none, window=none)

    def downlink(self, s: WindowServer, at: ServerView) -> Broadcast:
        return Broadcast(s.x, s.c)

    def _entered(self, c: WindowControl, at: ClientView) -> WindowControl:
        """The state at the first visit of a new window: the last window's mean has become c_i."""
        window = (at.t / self.period).floor()
        fresh = window > c.window
        return replace(c, c=c.mean.where(fresh, c.c), visits=c.visits.where(~fresh, 0.0), window=window)

    def plan(self, c: WindowControl, d: Broadcast, at: ClientView) -> Job:
        return Job(d.x, drift=d.c - self._entered(c, at).c)

    def report(
        self, c: WindowControl, d: Broadcast, job: Job, done: Done, at: ClientView
    ) -> tuple[WindowControl, Broadcast]:
        c = self._entered(c, at)
        visits = c.visits + 1
        # At the first visit of a window the old mean is c_i itself and must be replaced, not averaged in.
        mean = c.mean * (c.visits / visits) + mean_gradient(job, done) / visits
        after = WindowControl(c.c, mean, visits, c.window)
        return after, Broadcast(x=done.end - job.start, c=mean - c.mean)

    def merge(self, s: WindowServer, total: Broadcast, count: float, at: ServerView) -> Update:
        after = replace(s, pending=s.pending + total.c / at.m)
        return Update(after, s.x, total.x if count else None, over=count or 1)

    def finish(self, s: WindowServer, count: float, at: ServerView) -> tuple[WindowServer, Nothing]:
        if (at.t + 1) % self.period:
            return s, Nothing()
        x = s.anchor + self.amplification * (s.x - s.anchor)
        return WindowServer(x, s.c + s.pending, anchor=x, pending=x.new_zeros(x.shape)), Nothing()
