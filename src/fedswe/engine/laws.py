"""What holds for every algorithm, tried on quadratics: one line says which method breaks a law, and what to change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import torch

from fedswe.availability.mask import Rows
from fedswe.core.algorithm import Algorithm, ClientView, ServerView
from fedswe.core.local import Local
from fedswe.core.records import parts, take
from fedswe.engine.base import Engine
from fedswe.engine.batched import BatchedEngine
from fedswe.engine.loop import LoopEngine
from fedswe.errors import FedsweError, mistakes_as, require
from fedswe.tasks.quadratic import QuadraticProblem

M, D, ROUNDS = 8, 200, 30  # clients, numbers of a model, rounds
PRESENT = np.random.default_rng(1).random((ROUNDS, M)) < np.linspace(0.2, 0.9, M)
PRESENT[[0, 5]], PRESENT[1, 1:], PRESENT[12:28, 2] = False, True, False  # in every round somebody is absent

_CLIENT, _SERVER = ("client_init", "plan", "report", "settle", "bid"), ("server_init", "downlink", "merge", "finish")
_APART = "reduce with dim=-1, keepdim=True"


def engine(algorithm: Any, kind: str = "batched", rounds: int = 0, dtype: torch.dtype = torch.float64) -> Engine:
    """An engine for clients with quadratic objectives, after so many rounds."""
    random, number = np.random.default_rng(2), partial(torch.as_tensor, dtype=dtype)
    centers, curvature, start = random.normal(size=(M, D)), random.uniform(0.5, 1.5, (M, 1)), random.normal(size=D)
    problem = QuadraticProblem(0, number(centers), number(curvature), number(start), noise=0.0)
    rows, cls = Rows(PRESENT, np.linspace(0.2, 0.9, M)[None]), {"batched": BatchedEngine, "loop": LoopEngine}[kind]
    made = cls(algorithm, problem, rows, Local(steps=4, lr=0.05), seed=0)
    for _ in range(rounds):
        made.step()
    return made


# methods ---------------------------------------------------------------------------------------------------
def refuse(algorithm: Algorithm) -> None:
    """Refuse an algorithm from outside of the package that is not pure; what its methods raise, its run will say."""
    try:
        if not type(algorithm).__module__.startswith("fedswe."):
            pure(algorithm, rounds=8)
    except FedsweError:
        raise
    except Exception:
        return


def pure(algorithm: Algorithm, rounds: int = ROUNDS) -> None:
    """methods change nothing, are not random, and do not mix clients"""
    engine(Tried(algorithm), rounds=rounds)


@dataclass(frozen=True)
class Tried:
    """An algorithm that tries each of its calls."""

    algorithm: Algorithm

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.algorithm, name)
        return partial(self._call, name, value) if name in _CLIENT + _SERVER else value

    def seats(self) -> int:
        return 3 if self.algorithm.seats() else 0  # so that there are bids, and stacks

    def _call(self, name: str, method: Callable[..., Any], *given: Any) -> Any:
        given = tuple(map(deepcopy, given))  # one by one: the start of a job may be the model that was sent
        at, who = given[-1], f"{type(self.algorithm).__name__}.{name}()"
        named = dict(zip(list(signature(getattr(Algorithm, name)).parameters)[1:], given, strict=False))
        before, n = _numbers(named), len(at.p) if isinstance(at, ClientView) and at.p.ndim == 2 else 0
        alone = [_numbers(method(*(take(record, i) for record in given))) for i in range(n)]
        with mistakes_as(f"{who} fails on a stack", f": {_APART}, or torch.where") if n else nullcontext():
            found = method(*given)
        first, again = _numbers(found), _numbers(method(*given))
        same(before, _numbers(named), f"{who} changes KEY in place: compute a new tensor")
        same(first, again, f"{who} gives another KEY when it is called again: nothing may be random or kept elsewhere")
        for i, one in enumerate(alone):
            row = {key: v[i] if v.shape[:-1] == (n,) else v for key, v in first.items()}
            same(row, one, f"{who} mixes clients in KEY: {_APART}")
        for key, shape in {key: list(v.shape) for key, v in first.items()}.items():
            require(shape or name in _SERVER, f"{who} returns {key} of shape []: a number has shape [1]: {_APART}")
            fits = shape[-1:] == [D] or key not in ("start", "drift", "base", "step")
            require(fits, f"{who} returns {key} of shape {shape} for a model of shape {[D]}: compute it along dim=-1")
        if name in ("report", "settle", "merge", "finish"):
            state = found[0] if isinstance(found, tuple) else getattr(found, "state", found)
            new, old = ({key: list(v.shape[-1:]) for key, v in parts(record).items()} for record in (state, given[0]))
            require(new == old, f"{who} is given a state with {old} and returns one with {new}: return the same fields")
        if isinstance(at, ServerView) and self.algorithm.members_change:
            other = _numbers(method(*given[:-1], replace(at, m=at.m + 3)))
            for key in [key for key in first if key.startswith("state.") and key != "state.x"]:
                same({key: first[key]}, {key: other[key]}, f"{who} keeps m in KEY: leave out members_change = True")
        return found


# runs ------------------------------------------------------------------------------------------------------
def agreeing(algorithm: Algorithm) -> None:
    """both engines give the same finite models, in float64 and float32"""
    for dtype, share in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        loop, batched = (_models(engine(algorithm, kind, ROUNDS, dtype)) for kind in ("loop", "batched"))
        same(loop, batched, f"not KEY in {dtype}: {_APART}", share)
        require(all(v.isfinite().all() for v in loop.values()), "not finite: return Update(s, s.x) when count is 0")


def continuing(algorithm: Algorithm) -> None:
    """a run continues from its tensors with the same bits"""
    for kind in ("loop", "batched"):
        whole, first, second = (engine(algorithm, kind, rounds) for rounds in (ROUNDS, 9, 0))
        second.load({name: value.clone() for name, value in first.state().items()}, 9)
        for _ in range(9, ROUNDS):
            second.step()
        same(_models(whole), _models(second), "not KEY: keep all that a round depends on in the states, as tensors", 0)


def absent(algorithm: Algorithm) -> None:
    """what is kept of absent clients stays as it is"""
    ran = engine(algorithm, "loop")
    for present in () if algorithm.trains_while_absent else PRESENT:
        away = np.flatnonzero(~present)
        before = _numbers((ran._client_state(away), ran.client_models()[away]))
        ran.step()
        after = _numbers((ran._client_state(away), ran.client_models()[away]))
        same(before, after, f"not KEY in round {ran.t}: compute new tensors, in place of changing others", 0)


def forgetting(algorithm: Algorithm) -> None:
    """with home = "client", clients of different pasts have the same state after the same reply"""
    ran = engine(algorithm)
    for _ in PRESENT if algorithm.home == "client" else ():
        ran.step()
        for key, value in _numbers(ran._client_state(np.flatnonzero(ran.last == ran.t - 1))).items():
            require((value == value[:1]).all(), f'{key} is made of more than the last reply: leave out home = "client"')


LAWS = (pure, agreeing, continuing, absent, forgetting)


# what they compare -----------------------------------------------------------------------------------------
def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], message: str, share: float = 1e-7) -> None:
    """Refuse numbers that differ by more than rounding, this share of their length."""
    for key in a | b:
        x, y = a.get(key, torch.zeros(0)), b.get(key, torch.zeros(0))
        near = share * (1e-5 + float(x.nan_to_num().norm()))
        alike = x.shape == y.shape and torch.allclose(x, y, rtol=0, atol=near, equal_nan=True)
        require(alike, message.replace("KEY", key))


def _numbers(value: Any, name: str = "") -> dict[str, torch.Tensor]:
    """Copies of all tensors in records, by name."""
    if isinstance(value, torch.Tensor):
        return {name or "numbers": value.to(torch.float64, copy=True)}
    held = dict(zip(("state", "message"), value, strict=False)) if isinstance(value, tuple) else value
    held = parts(held) if is_dataclass(held) else held if isinstance(held, dict) else {}
    return {key: v for n, part in held.items() for key, v in _numbers(part, f"{name}.{n}".strip(".")).items()}


def _models(ran: Engine) -> dict[str, torch.Tensor]:
    return _numbers({"the server's model": ran.server_model(), "the models of the clients": ran.client_models()})
