"""Every rule as a Flower strategy.

    strategy = Strategy("fedswe:k=10", store="federation.db")      # was: FedAvg(...)
    strategy.start(grid, initial_arrays, num_rounds=50)

A round: every node that is there is sent its own start (`plan`), trains as its ClientApp says, and returns the end of
its training. The ends are checked, reported and merged (`report`, `merge`, `settle`) here, at the server.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from fedswe.availability import Availability, Mask
from fedswe.comparison.labels import label_of, labelled
from fedswe.core.algorithm import Algorithm
from fedswe.core.records import Vector
from fedswe.engine import laws
from fedswe.engine.outputs import Output
from fedswe.errors import FedsweError, require
from fedswe.flower.arrays import Layout
from fedswe.flower.federation import Federation
from fedswe.flower.mod import DRIFT, KEY
from fedswe.flower.move_limit import MoveLimit
from fedswe.flower.nodes import Nodes
from fedswe.flower.replies import LOG, checked, matched, metrics, one_line
from fedswe.flower.store import Store
from fedswe.registry import instance

_PAUSES = (0, 2, 4, 8, 16)  # seconds before each attempt at a round

_METRICS = {  # of a round, and where Flower has them
    "train": "train_metrics_clientapp",
    "evaluate": "evaluate_metrics_clientapp",
    "score": "evaluate_metrics_serverapp",
}

Messages = Iterable[Message]
Metrics = MetricRecord | None
Scorer = Callable[[int, ArrayRecord], Metrics]


class Strategy(FedAvg):
    """A rule of fedswe in place of Flower's FedAvg, for unmodified ClientApps."""

    def __init__(
        self,
        rule: str | Algorithm,
        *,
        store: str | Path | None = None,
        keep_reports: bool = False,
        serve: str = "server",
        members: int = 0,
        min_reports: int = 1,
        limit_moves: bool = True,
        names: bool = False,
        availability: Any = None,
        seed: int = 0,
        mean_examples: float = 0,
        **flower: Any,
    ) -> None:
        """`flower` are the parameters of Flower's FedAvg, with their names and meaning.

        rule: a name or label such as "fedswe:k=10", or an algorithm.
        store: an SQLite file; every committed round is in it, and `start` continues where it ends.
        keep_reports: keep what every client sent, for `fedswe flower replay`.
        serve: the model that is evaluated and returned: server, client_mean, ema:0.97, window:20.
        members: m of the rule, if more clients are expected than are there at the start.
        min_reports: a round with fewer is repeated and not counted.
        limit_moves: refuse a client that moves much farther than the others.
        names: ask every new node for its name, which its ClientApp needs fedswe.flower.mod for.
        availability: a model, a mask or a log of devices that lets only some nodes take part, for simulations.
        seed: of the draws of availability and of fraction_train.
        mean_examples: weigh clients by their num-examples (weighted_by_key), as Flower's FedAvg does, over this number,
            which is to be their mean over all clients: the weights then have mean 1. For fedavg any number will do.
        """
        super().__init__(**flower)
        require(self.fraction_train > 0, "fraction_train must be above 0: nothing would be trained")
        self.rule, self.serve = algorithm(rule), serve
        self._output = instance("output", serve, "serve")
        require(isinstance(self._output, Output), f"serve={serve} has no meaning here: name another model")
        require(min(members, min_reports) >= 0, "members and min_reports must be 0 or more")
        require(store or not keep_reports, "keep_reports needs a store")
        self.store, self.keep_reports, self.members, self.min_reports = store, keep_reports, members, min_reports
        self.limit_moves, self.names, self.seed = limit_moves, names, seed
        self.availability: Availability | None = availability
        if isinstance(availability, str):
            self.availability = instance("availability", availability, "availability")
        elif availability is not None and not isinstance(availability, Availability):
            self.availability = Mask.from_array(availability)
        self._wrapped, self.mean_examples = True, mean_examples
        require(mean_examples >= 0, "mean_examples must be 0 (no weights) or more")
        weighable = self.rule.takes_weights and self.rule.members_change  # no contributions with earlier weights
        why = "it counts or selects single clients, or its state holds contributions of all clients"
        name = type(self.rule).__name__
        require(not mean_examples or weighable, f"{name} takes no weights here ({why}): leave out mean_examples")

    def summary(self) -> None:
        """Log the configuration."""
        LOG.info("\t├──> %s, serves %s, store: %s", label_of("algorithm", self.rule), self.serve, self.store)
        super().summary()

    # the run -------------------------------------------------------------------------------------------
    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Scorer | None = None,
    ) -> Result:
        """As in Flower, but from the first round that is not in the store, and never without a merge.

        A round with fewer than min_reports reports is repeated and not counted. After five attempts the run ends with
        an error that has the clients' own words; the same command continues it.
        """
        self._wrapped = False
        with ExitStack() as end:
            end.callback(setattr, self, "_wrapped", True)
            store = end.enter_context(closing(Store(self.store, new=True))) if self.store else None
            federation = self._begin(initial_arrays, store)
            self.summary()
            evaluate = partial(self._evaluate, grid, timeout, evaluate_config or ConfigRecord(), evaluate_fn)
            result, rows = Result(), store.rounds() if store else []
            for row in [{"round": 0, **store.facts()}, *rows] if store else []:
                _add(result, row)
            if not rows or "score" not in rows[-1]:  # of a round whose evaluation was cut off
                evaluate(result)
            while federation.t < num_rounds:
                LOG.info("[ROUND %s/%s]", federation.t + 1, num_rounds)
                found = self._train(grid, timeout, train_config or ConfigRecord())
                _add(result, {"round": federation.t, "train": found})
                evaluate(result)
            if federation.t and not any(member.merged for member in federation.members.values()):
                raise FedsweError(f"no client reported in {federation.t} rounds: nothing was trained")
            result.arrays = self._arrays(federation.served())
        return result

    def _train(self, grid: Grid, timeout: float, config: ConfigRecord) -> Metrics:
        """One round, as often as it takes; the metrics of the clients."""
        r = self._federation.t + 1
        for pause in _PAUSES:
            time.sleep(pause)
            messages = list(self.configure_train(r, self._arrays(self._federation.served()), config, grid))
            replies = grid.send_and_receive(messages, timeout=timeout) if messages else []
            for message in messages:
                message.content = RecordDict()  # large, and not needed any more
            found = self.aggregate_train(r, replies)[1]
            del replies
            if self._federation.t == r:
                return found
        raise self._too_few()

    def _too_few(self) -> FedsweError:
        r, tried = self._federation.t + 1, len(self._tried)
        why = "; ".join(f"{name}: {text}" for name, text in list(self._tried[-1].items())[:3])
        return FedsweError(
            f"round {r} was tried {tried} times and has fewer than min_reports={self.min_reports} reports "
            f"({why or 'no client was asked'}): mend the clients and give the same command again"
        )

    def _evaluate(self, grid: Grid, timeout: float, config: ConfigRecord, own: Scorer | None, result: Result) -> None:
        """Evaluate the served model at the clients and by the user's function."""
        r, arrays = self._federation.t, self._arrays(self._federation.served())
        messages = list(self.configure_evaluate(r, arrays, config, grid)) if r else []
        found = self.aggregate_evaluate(r, grid.send_and_receive(messages, timeout=timeout) if messages else [])
        score = own(r, ArrayRecord(dict(arrays))) if own else None
        LOG.info("round %s: %s", r, score or found)
        _add(result, {"round": r, "evaluate": found, "score": score})
        if self._store:
            self._store.note_scores(r, {"evaluate": dict(found or {}), "score": dict(score or {})})

    def _begin(self, arrays: ArrayRecord, store: Store | None = None) -> Federation:
        """The federation of this run, from the store or from these arrays."""
        alone = self.store is None or not self._wrapped
        require(alone, "a store needs start() of this strategy itself: a wrapper changes models that are stored")
        self._layout, self._store = Layout.of(arrays), store
        start = self._layout.vector(self._layout.views(arrays))
        require(bool(start.isfinite().all()), "initial_arrays: a number is not finite")
        federation = self._federation = Federation(self.rule, start, self.members, self._output, store)
        known = not self.mean_examples or not federation.needs_received
        require(known, f"serve={self.serve} needs the weights of absent clients: serve the server model or its average")
        self._nodes = Nodes(federation, self.min_available_nodes, self.names, self.availability, self.seed)
        self._limit = MoveLimit(kept=self.rule.home == "server")
        self._made: dict[int, tuple[Vector, ArrayRecord]] = {}
        if store:
            self._continue(store, federation)
        # The failures of each attempt at the next round so far.
        self._tried = store.attempts(federation.t + 1) if store else []
        return federation

    def _continue(self, store: Store, federation: Federation) -> None:
        facts: dict[str, Any] = {"rule": label_of("algorithm", self.rule), "serve": self.serve}
        facts |= {"keep_reports": self.keep_reports, "members": 0 if self.rule.members_change else self.members}
        facts["mean_examples"] = self.mean_examples
        facts["arrays"] = [[name, dtype, list(shape)] for name, dtype, shape in self._layout.arrays]
        there = store.facts()
        if "rule" not in there:
            fixed = {name: b64encode(array.data).decode() for name, array in self._layout.fixed.items()}
            store.begin({**facts, "fedswe": version("fedswe"), "flwr": version("flwr"), "fixed": fixed}, federation)
            return
        for name, value in facts.items():
            shown = "" if name == "arrays" else f": {there.get(name, 0)} there, {value} here"
            require(there.get(name, 0) == value, f"{self.store} has other {name}{shown}: use another store")
        self._layout = self._layout.with_fixed({name: b64decode(data) for name, data in there["fixed"].items()})
        rows = store.rounds()
        federation.load(len(rows))
        for row in rows:
            self._limit.update(row["merged"], row["removed"])
        LOG.info("continues %s after round %s", self.store, federation.t)

    def _arrays(self, x: Vector) -> ArrayRecord:
        """The arrays of a model: they may be large, so that they are made once for all who need them in a round."""
        if id(x) not in self._made:
            self._made[id(x)] = x, self._layout.record(x)
        return self._made[id(x)][1]

    # training ------------------------------------------------------------------------------------------
    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Messages:
        """A message to each client that takes part, with its own start."""
        if self._wrapped and (server_round == 1 or not hasattr(self, "_federation")):
            self._begin(arrays)
        elif self._wrapped:  # go on from the model that a wrapper made of ours: noise belongs to the model
            ours = self._arrays(self._federation.served())
            x, y = (self._layout.vector(self._layout.views(record)) for record in (arrays, ours))
            if not x.equal(y):
                require(self.serve == "server", 'a wrapper changes the model that is served: use serve="server"')
                self._federation.replace_model(x)
        federation = self._federation
        self._began, t = time.monotonic(), federation.t
        if self._store:
            federation.removed = self._store.removed()
        names = self._nodes.asked(grid, self.fraction_train, self.min_train_nodes, t, f"train {len(self._tried)}")
        names = federation.seated(names, self._nodes.draws(names, t, "seats"), set[str]().union(*self._tried))
        config["server-round"] = t + 1
        asked = dict[str, Message]()
        for name in names:
            job = federation.job(name)
            content = RecordDict({self.arrayrecord_key: self._arrays(job.start), self.configrecord_key: config})
            if self.rule.needs_plain_sgd:
                content[KEY] = ConfigRecord({"count": True, "arrays": self.arrayrecord_key})
            if job.drift is not None:
                content[DRIFT] = self._layout.record(job.drift)
            asked[name] = Message(content, self._nodes.of[name], MessageType.TRAIN)
        self._asked = asked
        return list(asked.values())  # a list: Flower goes over the messages twice

    def aggregate_train(self, server_round: int, replies: Messages) -> tuple[ArrayRecord | None, Metrics]:
        """Check and merge what came back, and commit the round."""
        federation, asked, merged = self._federation, self._asked, None
        self._asked, self._made = {}, {}
        contents, failed = matched(replies, asked)
        limit, key = self._limit if self.limit_moves else None, self.weighted_by_key if self.mean_examples else ""
        ends = checked(contents, failed, self._layout, federation, limit, key)
        weights: dict[str, float] = {}
        needed = self.min_reports if self.availability is None else min(self.min_reports, len(asked))
        while merged is None and len(ends) >= needed:
            lr = statistics.median_low(end.lr for end in ends.values()) if ends else 1.0
            if self.mean_examples:
                weights = {name: end.examples / self.mean_examples for name, end in ends.items()}
            merged = federation.merge({name: end.done for name, end in ends.items()}, lr, weights)
            if not merged.is_finite():
                require(ends, "the model is not finite without any report: lower the rates and start anew")
                farthest, merged = max(ends, key=lambda name: ends[name].move), None
                del ends[farthest]
                failed[farthest] = "with its report the merged model is not finite"
        for name, why in failed.items():
            LOG.warning("client %s failed: %s", name, why)
        if merged is None:
            self._tried.append(failed)
            LOG.warning("round %s is not counted: %s reports, needed are %s", federation.t + 1, len(ends), needed)
            if self._store:
                self._store.note_attempt(federation.t + 1, failed)
            if self._wrapped and (not federation.t or len(self._tried) == len(_PAUSES)):  # Flower's loop would go on
                raise self._too_few()
            return None, None
        self._tried = []
        found = metrics({name: contents[name] for name in ends}, self.weighted_by_key, self.train_metrics_aggr_fn)
        federation.advance(merged)
        moves = {name: end.move for name, end in ends.items()}
        self._limit.update(moves, federation.removed)
        if self._store:
            absent = federation.members.keys() - federation.removed - set(self._nodes.available)
            entry = {"seconds": time.monotonic() - self._began, "m": federation.m, "digest": digest(federation)}
            entry |= {"train": dict(found or {}), "merged": moves, "failed": failed}
            entry |= {"weights": weights} if weights else {}
            entry |= {"removed": sorted(federation.removed), "absent": sorted(absent)}
            kept = {name: end.done for name, end in ends.items()} if self.keep_reports else {}
            self._store.commit(federation, entry, kept)
        federation.forget()
        LOG.info("round %s: %s merged, %s failed", federation.t, len(ends), len(failed))
        return self._arrays(federation.served()), found

    # evaluation at the clients -------------------------------------------------------------------------
    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Messages:
        """A message with the served model to each client that evaluates it."""
        if self.fraction_evaluate == 0:
            return []
        config["server-round"], t = server_round, max(self._federation.t - 1, 0)
        names = self._nodes.asked(grid, self.fraction_evaluate, self.min_evaluate_nodes, t, "evaluate")
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [Message(content, self._nodes.of[name], MessageType.EVALUATE) for name in names]

    def aggregate_evaluate(self, server_round: int, replies: Messages) -> Metrics:
        """The metrics of the clients."""
        replies = list(replies)
        for reply in [reply for reply in replies if reply.has_error()]:
            LOG.warning("node %s could not evaluate: %s", reply.metadata.src_node_id, one_line(reply.error.reason))
        contents = {f"{reply.metadata.src_node_id}": reply.content for reply in replies if reply.has_content()}
        return metrics(contents, self.weighted_by_key, self.evaluate_metrics_aggr_fn)


def _add(result: Result, row: Mapping[str, Any]) -> None:
    """Add the metrics of a round that there are."""
    for column, where in _METRICS.items():
        if row.get(column):
            getattr(result, where)[row["round"]] = MetricRecord(dict(row[column]))


def digest(federation: Federation) -> str:
    """Of the server's model, bit for bit."""
    return hashlib.sha256(federation.server.model.numpy().data).hexdigest()


def algorithm(rule: str | Algorithm) -> Algorithm:
    """A rule by name or label; one that has no meaning in Flower is refused."""
    if isinstance(rule, str):
        rule = labelled({}, rule).algorithm
    name = type(rule).__name__
    require(isinstance(rule, Algorithm), f"rule must be a label or an algorithm, not {name}")
    require(not rule.trains_while_absent, f"{name} trains while a client is absent: it has no meaning in Flower")
    require(not rule.needs_probabilities, f"{name} needs probabilities that nobody knows: use another rule")
    laws.refuse(rule)
    return rule
