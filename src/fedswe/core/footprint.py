"""What an algorithm keeps and sends, counted from its own records."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedswe.core.algorithm import AnyAlgorithm, ClientView, ServerView, empty_report
from fedswe.core.records import floats


@dataclass(frozen=True)
class Footprint:
    """Numbers (not bytes) held and moved per client and round, for a model of d parameters."""

    server: int  # persistent state at the server
    client: int  # persistent state at each client
    down: int  # downlink before the work
    up: int  # report
    reply: int  # reply after the merge


def footprint(algorithm: AnyAlgorithm, d: int) -> Footprint:
    """Run the definition once on empty records and count."""
    x0 = torch.zeros(d)
    server, at = algorithm.server_init(x0), ServerView(t=1, m=1, local_lr=1.0)
    one = torch.ones(1)
    report = empty_report(algorithm, x0)
    reply = algorithm.merge(server, report, 1, at)[1]
    client = algorithm.settle(algorithm.client_init(x0), reply, ClientView(one, one))
    return Footprint(
        server=floats(server),
        client=floats(client),
        down=floats(algorithm.downlink(server, at)),
        up=floats(report),
        reply=floats(reply),
    )


def in_d(count: int, d: int) -> str:
    """``2003`` at d = 1000 reads ``2d + 3``."""
    models, rest = divmod(count, d)
    words = [f"{models if models > 1 else ''}d"] * (models > 0) + [str(rest)] * (rest > 0)
    return " + ".join(words) or "0"
