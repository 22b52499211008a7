"""What comes back from the clients: matched with what was sent, and checked before anything of it is used."""

from __future__ import annotations

import logging
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Message, MetricRecord, RecordDict

from fedswe.core.algorithm import Done
from fedswe.errors import FedsweError, first_line, printable, require
from fedswe.flower.arrays import Layout, Numbers
from fedswe.flower.federation import Federation
from fedswe.flower.mod import KEY
from fedswe.flower.move_limit import MoveLimit

LOG = logging.getLogger("flwr")  # Flower's own, which it prints
_LONGEST = 300  # characters that are kept of what a client says
_NUMBERS = 1000  # in the metrics of a client


def one_line(text: object) -> str:
    """A text from a client in one line."""
    return printable(" ".join(str(text)[: 10 * _LONGEST].split()))[:_LONGEST]


def matched(replies: Iterable[Message], asked: Mapping[str, Message]) -> tuple[dict[str, RecordDict], dict[str, str]]:
    """Contents and failures by client: a reply belongs to the message it answers, whatever else it says."""
    sent = {message.metadata.message_id: name for name, message in asked.items()}
    contents: dict[str, RecordDict] = {}
    # Flower gives no id to a message whose node is gone.
    failed = {name: "no reply in time" if m.metadata.message_id else "gone when asked" for name, m in asked.items()}
    for reply in replies:
        name = sent.pop(reply.metadata.reply_to_message_id or "none", None)
        if name is not None and reply.has_content():
            contents[name] = reply.content
            del failed[name]
        elif name is not None:
            failed[name] = one_line(reply.error.reason)
    return contents, failed


@dataclass(frozen=True)
class End:
    """The end of a client's training, as it was received."""

    layout: Layout
    views: list[Numbers]
    steps: int
    lr: float
    move: float  # the distance from its start
    examples: float  # its weight, as it says

    def done(self) -> Done:
        return Done(self.layout.vector(self.views), self.steps, self.lr)


def checked(
    contents: Mapping[str, RecordDict],
    failed: dict[str, str],
    layout: Layout,
    federation: Federation,
    limit: MoveLimit | None,
    key: str = "",
) -> dict[str, End]:
    """The ends that can be used, in the order of the members; what is wrong with the others is added to `failed`.

    `key`: of the metric by which clients are weighted; empty: all count the same.
    """
    ends: dict[str, End] = {}
    for name in sorted(contents, key=lambda name: federation.members[name].number):
        try:
            ends[name] = _end(contents[name], name, layout, federation, key)
        except Exception as error:  # whatever a client sends
            failed[name] = one_line(error if isinstance(error, FedsweError) else f"unreadable ({first_line(error)})")
    if limit is None or not ends:
        return ends
    # One who claims few steps, or a small rate, claims large gradients: they count as a long move.
    way = statistics.median_low(end.steps * end.lr for end in ends.values())
    lr = statistics.median_low(end.lr for end in ends.values())
    moves = {name: end.move * max(1.0, way / (end.steps * end.lr), lr / end.lr) for name, end in ends.items()}
    for name, most in limit.exceeded(moves, federation.server.model).items():
        failed[name] = f"moved by {moves[name]:.3g}, the limit is {most:.3g}"
        del ends[name]
    return ends


def _end(content: RecordDict, name: str, layout: Layout, federation: Federation, key: str) -> End:
    records = list(content.array_records.values())
    require(len(records) == 1, f"{len(records)} records of arrays in the reply, expected is one")
    told: Any = {"steps": 1, "lr": 1.0}
    if federation.algorithm.needs_plain_sgd:
        told = content.get(KEY)
        require(told is not None, "it did not count its steps: write ClientApp(mods=[fedswe.flower.mod])")
    steps, lr = told["steps"], told["lr"]
    possible = type(steps) is int and type(lr) is float and 0 < steps < 10**9 and 1e-12 < lr < 1e12
    require(possible, "its number of steps or its rate is impossible")
    views = layout.views(records[0])
    move = layout.move(views, federation.job(name).start)
    require(math.isfinite(move), "its numbers are not finite")
    examples = _examples(content, key) if key else 1.0
    require(examples, f"its metrics have no {key} above 0, by which clients are weighted")
    return End(layout, views, steps, lr, move, examples)


def _examples(content: RecordDict, key: str) -> float:
    """The weight that a client says; 0 if it cannot be used."""
    records: list[Mapping[str, Any]] = list(content.metric_records.values())
    weight = records[0].get(key) if len(records) == 1 else None
    return weight if isinstance(weight, int | float) and 0 < weight < 2.0**53 else 0


def metrics(
    contents: Mapping[str, RecordDict], key: str, aggregated: Callable[[list[RecordDict], str], MetricRecord]
) -> MetricRecord | None:
    """The metrics of the clients, weighted as in Flower, of those that have the same ones as most clients."""
    kinds = {name: _kind(content, key) for name, content in contents.items()}
    usual = Counter(filter(None, kinds.values())).most_common(1)
    usable = [name for name, kind in kinds.items() if usual and kind == usual[0][0]]
    if usable and len(usable) < len(contents):
        others = sorted(contents.keys() - usable)[:9]
        LOG.warning("the metrics of %s are left out: other names, no weight, too many or not finite", others)
    try:
        return aggregated([contents[name] for name in usable], key) if usable else None
    except Exception as error:  # whatever clients send
        LOG.warning("the metrics of the clients cannot be aggregated (%s)", first_line(error))
        return None


def _kind(content: RecordDict, key: str) -> tuple[tuple[str, int], ...] | None:
    """Names and lengths of the metrics of a client; None if they cannot be used."""
    if not _examples(content, key):
        return None
    records: list[Mapping[str, Any]] = list(content.metric_records.values())
    numbers = np.hstack(list(records[0].values()))
    if len(numbers) > _NUMBERS or not np.isfinite(numbers).all():
        return None
    return tuple(sorted((name, np.ndim(value) * np.size(value)) for name, value in records[0].items()))
