"""A hostile client costs little: whatever it sends, nothing leaves the strategy, and the model stays good."""

import gc
import logging
import sys
from functools import cache, partial

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedswe.core.local import Local
from fedswe.engine import solvers
from fedswe.flower import Strategy
from tests import problems
from tests.flower.apps import arrays, client_app, reply, torch_app, vector
from tests.flower.grid import LocalGrid

M = 4


def mutated(random, message, x):
    """One of many kinds of nonsense."""
    good = reply(message, x).content
    array, kind = good["arrays"]["a"], int(random.integers(18))
    cut = int(random.integers(0, len(array.data)))
    header = array.data[:64]
    broken = {
        0: lambda: Array(array.dtype, array.shape, array.stype, array.data[:cut]),
        1: lambda: Array(array.dtype, array.shape, array.stype, array.data + bytes(100_000)),
        2: lambda: Array("float32", array.shape, array.stype, array.data),
        3: lambda: Array(array.dtype, (10**12,), array.stype, array.data),
        4: lambda: Array(array.dtype, array.shape, "pickle", b"cos\nsystem\n(S'true'\ntR." + array.data),
        5: lambda: Array(array.dtype, array.shape, array.stype, header.replace(b"(2,)", b"(9,)") + array.data[64:]),
        6: lambda: Array(array.dtype, array.shape, array.stype, bytes(random.bytes(len(array.data)))),
        7: lambda: Array(np.full(2, random.choice([np.nan, np.inf, -np.inf, 1e308]))),
        8: lambda: Array(np.array(["a", "b"])),
        9: lambda: Array(np.zeros(2, np.complex128)),
        10: lambda: Array(np.asfortranarray(np.zeros((2, 1)))),
    }
    if kind in broken:
        good["arrays"] = ArrayRecord({**good["arrays"], "a": broken[kind]()})
    elif kind == 11:
        good["arrays"] = ArrayRecord({"a": array})
    elif kind == 12:
        good["more"] = ArrayRecord({f"x{i}": array for i in range(50)})
    elif kind == 13:
        del good["arrays"]
    elif kind == 14:
        good["metrics"] = MetricRecord({"num-examples": random.choice([np.nan, -1.0, 0.0, 1e300]), "\x1b[2J": [1.0]})
    elif kind == 15:
        good["metrics"] = MetricRecord({"num-examples": 3, "loss": [1.0] * int(random.integers(5))})
    elif kind == 16:
        good["fedswe"] = ConfigRecord({"steps": -1, "lr": random.choice([0.0, np.nan, 1e-300]), "client": "0"})
    elif kind == 17:
        message = replace_message(message, random)
    return Message(RecordDict(good), reply_to=message)


def replace_message(message, random):
    """The answer to a message that was never sent, or of another node."""
    other = Message(RecordDict(), dst_node_id=int(random.integers(1, 10**9)), message_type="train")
    other.metadata.__dict__["_message_id"] = random.choice(["", "x", message.metadata.message_id])
    return other


class Hostile(LocalGrid):
    """A grid in which replies go straight to the strategy: Flower itself would drop some of them."""

    def __init__(self):
        super().__init__(None, M)
        self.random, self.sent = np.random.default_rng(4), 0

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for place, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = f"{self.sent}/{place}"
            x = np.concatenate([message.content["arrays"][n].numpy().ravel() for n in "ab"])
            if message.metadata.message_type == "train" and place == 0:
                replies.append(reply(message, x * 0.9 + 0.01))  # one honest client, so that rounds go on
                replies[-1].content["fedswe"] = ConfigRecord({"steps": 3, "lr": 0.1})
            for _ in range(25):
                replies.append(mutated(self.random, message, x))
                self.sent += 1
        return replies


@pytest.mark.parametrize("rule", ["fedswe:k=2", "mifa", "scaffold"])
def test_twenty_thousand_mutated_replies(rule, tmp_path, monkeypatch):
    """7,000 for each rule: no exception, a finite model, and memory that does not grow."""
    monkeypatch.setattr(logging.getLogger("flwr"), "disabled", True)  # pytest keeps what is logged
    hostile, memory = Hostile(), []

    def score(t, x):
        assert all(np.isfinite(x[name].numpy()).all() for name in "ab")
        if t in (10, 35):
            gc.collect()
            memory.append(sys.getallocatedblocks())  # objects; tracemalloc would make this four times slower

    made = Strategy(rule, store=tmp_path / "f.db", min_reports=0)
    made.start(hostile, arrays(np.zeros(5)), 36, evaluate_fn=score)
    assert hostile.sent >= 7000
    assert memory[1] < memory[0] + 2500  # 5,000 replies came between


# attacks that are well formed -----------------------------------------------------------------------------
CLIENTS, ROUNDS = 10, 40
LOCAL_DIGITS = Local(steps=10, batch_size=32, lr=1.0, schedule="constant")


def attack(kind, message, honest):
    """What the attacker sends in place of its reply; None is silence."""
    t, start = message.content["config"]["server-round"] - 1, vector(message.content["arrays"])
    end = vector(honest.content["arrays"])
    sent = {
        "honest": end,
        "grows": start + 1.5**t * (end - start),
        "giant": end + (1e6 if t == 5 else 0.0),
        "nan": end * torch.nan,
        "copy": start,
        "silence": None,
    }[kind]
    return None if sent is None else reply(message, sent)


@pytest.mark.parametrize("kind", ["grows", "giant", "nan", "copy", "silence"])
@pytest.mark.parametrize("rule", ["fedswe:k=10", "fedavg", "mifa"])
def test_one_attacker_of_ten_costs_at_most_a_point(rule, kind, accuracies):
    assert accuracies(rule, kind) >= accuracies(rule, "honest") - 0.01


@pytest.fixture(scope="module")
def accuracies():
    problem = problems.digits(CLIENTS, dtype=torch.float32, alpha=1.0)
    mask = np.random.default_rng(3).random((ROUNDS, CLIENTS)) < 0.7

    @cache
    def accuracy(rule, kind):
        grid = LocalGrid(client_app(problem, LOCAL_DIGITS), CLIENTS)
        grid.instead = {3: partial(attack, kind)}
        made, last = Strategy(rule, names=True, availability=mask, fraction_evaluate=0.0), []

        def score(t, x):
            if t > ROUNDS - 15:
                last.append(solvers.scores(problem, vector(x))["test_accuracy"])

        made.start(grid, arrays(problem.start), ROUNDS, timeout=0.01, evaluate_fn=score)
        return np.mean(last)

    return accuracy


@pytest.mark.parametrize("rule", ["scaffold", "focus"])
def test_a_small_rate_does_not_make_large_gradients(rule):
    """These rules divide by the rate that a client reports: claiming a small one counts as a long move."""
    problem, ends = problems.quadratic(M, d=5), []
    for told in ({}, *({"steps": n, "lr": lr} for n, lr in ((4, 1e-9), (10**6, 2e-7), (4, 0.0), (4, "a")))):
        grid = LocalGrid(torch_app(problem), M)

        def lying(message, answer, told=told):
            answer.content["fedswe"] = ConfigRecord(told)
            return answer

        grid.instead = {0: lying}
        made = Strategy(rule, names=True, fraction_evaluate=0.0)
        made.start(grid, arrays(np.zeros(5)), 15)
        ends.append(made._federation.server.model)
    assert all(torch.equal(end, ends[0]) for end in ends)  # as if the client had never reported
