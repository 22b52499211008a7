"""Local training replayed as a CUDA graph: launching small kernels one by one takes longer than running them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn

from fedswe.core import transforms
from fedswe.core.local import Local
from fedswe.core.records import Vector
from fedswe.engine.work import Stack, phase_end
from fedswe.tasks.batches import Augment, Batches
from fedswe.tasks.problem import Problem
from fedswe.tasks.supervised_problem import SupervisedProblem

_AUGMENTATIONS = ("shift_y", "shift_x", "flip")
_KEPT = 4  # families whose graphs are kept


class Graphs:
    """CUDA graphs of some work, one for each kind (shape) of it."""

    def __init__(self) -> None:
        self._graphs: dict[Hashable, Any] = {}
        self._pool: Any = None  # graphs run one at a time, so they share their scratch memory

    def run(self, kind: Hashable, work: Callable[[], None]) -> None:
        """Do the work: as it is the first time (kernels compile, libraries allocate), then captured, then replayed."""
        if kind not in self._graphs:
            self._graphs[kind] = None
            work()
            return
        if self._graphs[kind] is None:
            self._graphs[kind] = self._captured(work)
        self._graphs[kind].replay()

    def _captured(self, work: Callable[[], None]) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):  # records, does not run
            work()
        self._pool = graph.pool()
        return graph


class HeldPhase:
    """The local phases of one family of runs, read from and written to buffers that stay in place."""

    def __init__(self, stack: Stack, batches: Batches, room: int, width: int) -> None:
        self.gradient, self.chain = stack.gradient, stack.chain
        self.room, self.width = room, width
        steps = stack.local.steps
        self.x = stack.start.new_zeros(room, stack.start.shape[1])
        self.drift = None if stack.drift is None else torch.zeros_like(self.x)
        self.lr = self.x.new_zeros(room, 1)
        augmentations, dropout = batches.augment, batches.dropout
        self.batches = Batches(
            batches.index.new_zeros(room, steps, width),
            batches.weight.new_zeros(room, width),
            None
            if augmentations is None
            else Augment(*(getattr(augmentations, name).new_zeros(room, steps, width) for name in _AUGMENTATIONS)),
            None if dropout is None else dropout.new_zeros(room, steps),
        )
        self._graphs = Graphs()

    def run(self, stack: Stack, part: slice, batches: Batches, graph: bool = True) -> Vector:
        """The end models of a part of the stack, a view until the next call."""
        n, width = len(stack.start[part]), batches.index.shape[2]
        self.x[:n] = stack.start[part]
        self.lr[:n] = stack.lr[part]
        if self.drift is not None and stack.drift is not None:
            self.drift[:n] = stack.drift[part]
        held = self.batches
        held.index[:n, :, :width] = batches.index
        held.weight[:n] = 0  # of samples beyond the width
        held.weight[:n, :width] = batches.weight
        if held.augment is not None:
            for name in _AUGMENTATIONS:
                getattr(held.augment, name)[:n, :, :width] = getattr(batches.augment, name)
        if held.dropout is not None and batches.dropout is not None:
            held.dropout[:n] = batches.dropout
        rows = min(_rounded(n), self.room)
        if graph:
            self._graphs.run(rows, lambda: self._phase(rows))
        else:
            self._phase(rows)
        return self.x[:n]

    def _phase(self, rows: int) -> None:
        """Train the first rows; rows from n on are padding, and their output is ignored."""
        drift = None if self.drift is None else self.drift[:rows]
        self.x[:rows] = phase_end(self.gradient, self.x[:rows], self.batches[:rows], drift, self.lr[:rows], self.chain)


def _rounded(n: int) -> int:
    """Up to an eighth more, so that at most eight graphs serve all sizes between a power of two and the next."""
    grain = 1 << max(0, n.bit_length() - 4)
    return -(-n // grain) * grain


# By family, the last used at the end. An entry keeps its data in memory, so no other family can get the same key.
_HELD: dict[Hashable, HeldPhase] = {}


def _held(stack: Stack, batches: Batches, n: int) -> HeldPhase:
    key = (stack.works[0].family, stack.drift is None)
    held = _HELD.pop(key, None)
    room, width = (held.room, held.width) if held is not None else (0, 0)
    if held is None or room < n or width < batches.index.shape[2]:
        # Grow by doubling, to reallocate rarely.
        room = max(room, min(1 << (n - 1).bit_length(), stack.rows))
        held = HeldPhase(stack, batches, room, max(width, batches.index.shape[2]))
    _HELD[key] = held
    if len(_HELD) > _KEPT:
        del _HELD[next(iter(_HELD))]
    return held


def suits(problem: Problem, local: Local) -> bool:
    built_in = all(type(transform).__module__ == transforms.__name__ for transform in local.transforms)
    if not (built_in and isinstance(problem, SupervisedProblem) and problem.data is not None):
        return False
    # BatchNorm groups clients by the size of their batches, which waits for the device.
    return problem.network.vmaps and not problem.network.mixes_samples and has_only_torch_layers(problem.network.module)


def has_only_torch_layers(module: nn.Module) -> bool:
    """Whether all layers are torch's own: they never wait for the device, which would break a capture."""
    return all(type(layer).__module__.startswith("torch.nn.") for layer in module.modules())


def train(stack: Stack, graph: bool = True) -> Vector:
    """The end models, [N, d]."""
    batches: Batches = stack.draw()
    ends = torch.empty_like(stack.start)
    held = _held(stack, batches, min(len(ends), stack.rows))
    for at in range(0, len(ends), stack.rows):
        part = slice(at, at + stack.rows)
        ends[part] = held.run(stack, part, batches[part], graph)
    return ends


def scores(problem: Problem, x: Vector) -> dict[str, float] | None:
    return None
