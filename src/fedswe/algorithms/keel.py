"""Keel: clients train near an average over rounds, and extrapolated steps move a point ahead of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedswe.algorithms.fedau import Client, mean_interval, no_intervals
from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Nothing, Scalar, Vector
from fedswe.core.value import Count, Decay, NonNegative


@dataclass(frozen=True)
class Server:
    x: Vector  # what clients train from
    ahead: Vector  # the point that the steps move
    average: Vector  # of that point, over the rounds with reports
    rounds: Scalar  # with reports


@dataclass(frozen=True)
class Weighted:
    progress: Vector  # times the weight
    square: Scalar  # its squared length, times the weight
    weight: Scalar


@dataclass(frozen=True)
class Keel(Algorithm):
    """A weighted mean of the progress, extrapolated where clients disagree, moves a point z ahead of its average a.

        w_i = omega_i^power;   W = sum_A w_i;   D = (sum_A w_i D_i) / W   with D_i = end_i - x
        eta = (sum_A w_i |D_i|^2) / (2 W |D|^2),   at least 1 and at most `longest`
        z   = z + lr eta D
        a   = a + c (z - a)   with c = (recent + 1) / (n + recent) in the n-th round with reports
        x   = (1 - steady) z + steady a

    omega_i is FedAU's estimate of 1/p_i, the mean of the client's participation intervals, each at most `cutoff`.
    Extrapolated steps are noisy; x has little of that noise, because it is mostly the average, and so has what clients
    train. The form of x, z and a is that of schedule-free descent, with the weights of polynomial-decay averaging. A
    chain (momentum, a warm-up) is applied to the steps of z.

    power = 0 weighs all clients alike and needs nothing at a client, longest = 1 does not extrapolate, steady = 0 does
    not average: all three are FedAvg.
    """

    power: Annotated[float, Field(ge=0, le=10)] = 0.5  # of the interval: 0 weighs all alike
    cutoff: Count = 50  # K, rounds after which an absence is recorded as an interval
    longest: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 10.0  # bound of eta
    steady: Decay = 0.7  # share of the average in the model that clients train from
    recent: NonNegative = 3.0  # weights of the average grow with this power of the round: 0 is the plain mean

    members_change: ClassVar[bool] = True
    title: ClassVar[str] = "extrapolated steps of a point ahead of its average, near which clients train"
    citation: ClassVar[str] = (
        "This project. Extrapolation: Jhunjhunwala, Wang, Joshi (FedExP), ICLR 2023. Intervals: Wang, Ji (FedAU), "
        "ICLR 2024. Average: Defazio, Yang, Mehta, Mishchenko, Khaled, Cutkosky. The Road Less Scheduled. NeurIPS "
        "2024; Shamir, Zhang. Stochastic Gradient Descent for Non-smooth Optimization. ICML 2013."
    )

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, x0, x0, x0.new_zeros((*x0.shape[:-1], 1)))

    def client_init(self, x0: Vector) -> Client:
        return no_intervals(x0)

    def report(self, c: Client, d: Any, job: Job, done: Done, at: ClientView) -> tuple[Client, Weighted]:
        after, omega = mean_interval(c, at, self.cutoff)
        weight, progress = omega**self.power, done.end - job.start
        return after, Weighted(weight * progress, weight * progress.norm(dim=-1, keepdim=True) ** 2, weight)

    def merge(self, s: Server, total: Weighted, count: float, at: ServerView) -> Update:
        if not count:
            return Update(s, s.ahead)
        tiny = 1e-30  # where no client moved
        mean = total.progress / total.weight
        eta = total.square / total.weight / (2 * mean.norm(dim=-1, keepdim=True) ** 2).clamp(min=tiny)
        return Update(s, s.ahead, eta.clamp(1.0, self.longest) * mean)

    def finish(self, s: Server, count: float, at: ServerView) -> tuple[Server, Nothing]:
        rounds = s.rounds + (count > 0)
        share = (self.recent + 1) / (rounds + self.recent).clamp(min=1) if count else 0.0
        average = s.average + share * (s.x - s.average)
        return Server(s.x + self.steady * (average - s.x), s.x, average, rounds), Nothing()

    def moved_to(self, s: Server, x: Vector) -> Server:
        return Server(x, s.ahead + (x - s.x), s.average + (x - s.x), s.rounds)
