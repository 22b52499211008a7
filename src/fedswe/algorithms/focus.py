"""FOCUS: the server tracks the sum of the clients' last gradients; local steps follow their change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms.scaffold import mean_gradient
from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Vector


@dataclass(frozen=True)
class Client:
    g: Vector  # g_i, the gradient of the client's last visit; 0 before the first


@dataclass(frozen=True)
class Server:
    x: Vector
    y: Vector  # (s/m) sum of all g_i


@dataclass(frozen=True)
class FOCUS(Algorithm):
    """Push-pull gradient tracking: exact for any participation where gradients have no noise.

        local steps with gradient - g_i from x;   g_i+ = mean gradient of these steps
        y = y + (s/m) sum_A (g_i+ - g_i);         x = x - lr eta_l y;    g_i = g_i+ for i in A

    y is always (s/m) sum g_i over all clients. At a fixed point the g_i are the gradients at x and add up to 0: x is
    the optimum, however often each client comes. Without reports, x stays.

    Deviations: the published g_i is the gradient of the last local step, and that step is not taken; what an algorithm
    sees here is the end of the local training, so g_i is the mean over the s steps. For s = 1 both are the same. The
    published y is the sum of the g_i: use lr = m/s for its step; here lr = 1 has the scale of FedAvg. With local
    epochs s g_i is s_i g_i, so that clients with many steps weigh more at the fixed point.
    """

    needs_plain_sgd: ClassVar[bool] = True
    title: ClassVar[str] = "FOCUS: exact convergence by push-pull gradient tracking"
    citation: ClassVar[str] = (
        "Ying, Li, Yang. Exact and Linear Convergence for Federated Learning under Arbitrary Client Participation is "
        "Attainable. NeurIPS 2025."
    )

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, y=x0.new_zeros(x0.shape))

    def client_init(self, x0: Vector) -> Client:
        return Client(g=x0.new_zeros(x0.shape))

    def plan(self, c: Client, d: Model, at: ClientView) -> Job:
        return Job(d.x, drift=-c.g)

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        g = mean_gradient(job, done)
        return Client(g), Model(done.steps * (g - c.g))

    def merge(self, s: Server, total: Model, count: float, at: ServerView) -> Update:
        if count == 0:
            return Update(s, s.x)
        y = s.y + total.x / at.m
        return Update(Server(s.x, y), s.x, -at.local_lr * y)
