"""The models a run is evaluated at: the server model, the client mean, and averages over rounds.

An output is a frozen dataclass like a transform: hyper-parameters only, its state is a record of tensors that is
passed in and returned. It reads a run (an engine, or the server of a Flower app) and never changes it. `best` is none
of them: it names one of the others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from fedswe.core.algorithm import Algorithm
from fedswe.core.records import Model, Nothing, Scalar, Vector, parts
from fedswe.core.value import Count, Decay, Value
from fedswe.errors import require

if TYPE_CHECKING:
    import torch

Averaged = Literal["server", "client_mean"]
NO_HELD_OUT = "evaluate.model: best needs held-out samples: set task.hold_out, e.g. 0.1, or leave best out"


class Run(Protocol):
    """What an output may read."""

    t: int

    @property
    def m(self) -> int: ...

    @property
    def algorithm(self) -> Algorithm: ...

    def server_model(self) -> Vector: ...

    def client_mean(self) -> Vector: ...


@dataclass(frozen=True)
class Output(Value, ABC):
    title: ClassVar[str]

    def init(self, run: Run) -> Any:
        """The state before the first round."""
        return Nothing()

    def after_round(self, state: Any, run: Run) -> Any:
        """The state after each round."""
        return state

    @abstractmethod
    def model(self, state: Any, run: Run) -> Vector:
        """The model that is evaluated now."""


@dataclass(frozen=True)
class ServerModel(Output):
    """x^t, the server's model."""

    title: ClassVar[str] = "the server model x^t"

    def model(self, state: Nothing, run: Run) -> Vector:
        return run.server_model()


@dataclass(frozen=True)
class ClientMean(Output):
    """The mean over all clients of the model each last received."""

    title: ClassVar[str] = "the mean of the models the clients last received"

    def model(self, state: Nothing, run: Run) -> Vector:
        return run.client_mean()


@dataclass(frozen=True)
class AugmentedMean(Output):
    """The mean over the m clients and FedSWE's k virtual ones, which hold the server model; for others k = 0."""

    title: ClassVar[str] = "the mean over the clients and FedSWE's k virtual ones"

    def model(self, state: Nothing, run: Run) -> Vector:
        k = virtual_clients(run)
        return (run.m * run.client_mean() + k * run.server_model()) / (run.m + k)


@dataclass(frozen=True)
class CountedModel:
    """An average, and over how many rounds; the count is on the CPU, where reading it does not wait for a GPU."""

    x: Vector
    count: Scalar


@dataclass(frozen=True)
class Ema(Output):
    """The exponential average over rounds of the server model or of the client mean.

    After round t it is ema = kept ema + (1 - kept) y^t, where y^t is the averaged model and kept the smaller one
    of decay and (t - 1) / (t + 3): x^0 has no weight, and in the first rounds the average is over about a quarter
    of them, for a model that still moves fast. Without correct_bias kept is decay, and x^0 keeps the weight decay^t.
    """

    decay: Decay = 0.99  # of the average, per round
    of: Averaged = "server"  # the averaged model: server, or client_mean
    correct_bias: bool = True  # leave out x^0, and average over fewer rounds at the beginning

    title: ClassVar[str] = "an exponential average over rounds of server model or client mean"

    def init(self, run: Run) -> Model | CountedModel:
        x = _averaged(run, self.of)
        return CountedModel(x, _zero_count(x)) if self.correct_bias else Model(x)

    def after_round(self, state: Model | CountedModel, run: Run) -> Model | CountedModel:
        x = _averaged(run, self.of)
        if isinstance(state, Model):
            return Model(x.lerp(state.x, self.decay))
        count = state.count + 1
        kept = min(self.decay, (float(count) - 1) / (float(count) + 3))  # 0 in the first round
        return CountedModel(x.lerp(state.x, kept), count)

    def model(self, state: Model | CountedModel, run: Run) -> Vector:
        return state.x


@dataclass(frozen=True)
class BlockSums:
    """Sums in float64 of the last complete block and of the one under way, and the number of rounds so far."""

    before: Vector
    now: Vector
    count: Scalar


@dataclass(frozen=True)
class Window(Output):
    """The mean over the last rounds of the server model or of the client mean, from two sums.

    The rounds are cut into blocks of W rounds, counted from the first. The mean is over the last complete block and the
    one under way: after t >= W rounds over the last W + (t mod W) of them, which is W to 2W - 1; before that over all t
    rounds. x^0 is in no mean. A mean over exactly the last W would need the W models.
    """

    rounds: Count = 50  # W: the mean is over the last W to 2W - 1 rounds
    of: Averaged = "server"  # the averaged model: server, or client_mean

    title: ClassVar[str] = "the mean over the last rounds of server model or client mean"

    def init(self, run: Run) -> BlockSums:
        x = run.server_model()
        nothing = x.new_zeros(x.shape).double()
        return BlockSums(nothing, nothing, _zero_count(nothing))

    def after_round(self, state: BlockSums, run: Run) -> BlockSums:
        now, count = state.now + _averaged(run, self.of), state.count + 1
        if int(count) % self.rounds == 0:
            return BlockSums(now, now.new_zeros(now.shape), count)
        return BlockSums(state.before, now, count)

    def model(self, state: BlockSums, run: Run) -> Vector:
        count, x = int(state.count), _averaged(run, self.of)
        if count == 0:
            return x
        over = count % self.rounds + (self.rounds if count >= self.rounds else 0)
        return ((state.before + state.now) / over).to(x.dtype)


def _averaged(run: Run, of: Averaged) -> Vector:
    return run.client_mean() if of == "client_mean" else run.server_model()


def _zero_count(x: Vector) -> Scalar:
    return x.new_zeros((1,), device="cpu").double()


def virtual_clients(run: Run) -> float:
    """FedSWE's k: its analysis counts m + k clients. 0 for other algorithms."""
    from fedswe.algorithms.fedswe import FedSWE

    return run.algorithm.copies(run.m) if isinstance(run.algorithm, FedSWE) else 0.0


@dataclass(frozen=True)
class Best(Value):
    """Of the other models in evaluate.model, the one that is best on held-out samples.

    It is chosen anew at every evaluation: the highest held_out_accuracy (or the lowest held_out_loss), as a mean over
    the last few evaluations; of equal ones the first in evaluate.model. A model whose last score is not finite is not
    chosen while there is another. Between two evaluations the choice stays. It depends on the history only, and on no
    score of training or test samples. The column best_choice is the position of the chosen model in evaluate.model,
    counted from 0. It needs no memory and no evaluation of its own.
    """

    over: Count = 3  # evaluations whose mean decides
    by: Literal["accuracy", "loss"] = "accuracy"  # the held-out score: accuracy, or loss

    title: ClassVar[str] = "of the other models, the one that is best on held-out samples"

    def require_held_out(self, scores: Mapping[str, float]) -> None:
        """Refuse a task without the score."""
        wanted = f"held_out_{self.by}"
        require(any(score.startswith("held_out_") for score in scores), NO_HELD_OUT)
        require(
            wanted in scores, f"evaluate.model: the task has no score {wanted}: write best:by=loss, or leave best out"
        )

    def choice(self, names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> str:
        """One of the models, by the last of these rows of the history."""
        return max(names, key=lambda name: self._worth([row.get(f"{name}_held_out_{self.by}") for row in rows]))

    def _worth(self, values: Sequence[float | None]) -> float:
        known = [math.nan if value is None else value for value in values[-self.over :]]
        if not known or not math.isfinite(known[-1]):
            return -math.inf
        finite = [value for value in known if math.isfinite(value)]
        mean = sum(finite) / len(finite)
        return mean if self.by == "accuracy" else -mean


class Outputs:
    """The outputs of one run by name, with their states, and the choices among them."""

    def __init__(self, run: Run, outputs: Mapping[str, Output | Best]) -> None:
        self._run, self._order = run, list(outputs)
        self._best = {name: output for name, output in outputs.items() if isinstance(output, Best)}
        self._outputs = {name: output for name, output in outputs.items() if not isinstance(output, Best)}
        self._states = {name: output.init(run) for name, output in self._outputs.items()}

    def after_round(self) -> None:
        self._states = {n: output.after_round(self._states[n], self._run) for n, output in self._outputs.items()}

    def computed(self) -> dict[str, Vector]:
        """The models of all outputs but those that are choices."""
        models = {name: output.model(self._states[name], self._run) for name, output in self._outputs.items()}
        wanted = self._run.server_model().shape
        for name, x in models.items():
            require(x.shape == wanted, f"output {name}: a model of shape {list(x.shape)}, expected is {list(wanted)}")
        return models

    def models(self, rows: Sequence[Mapping[str, float]] = ()) -> dict[str, Vector]:
        """All models, where `rows` is the history so far, by which choices are made."""
        models = self.computed()
        models |= {name: models[chosen] for name, chosen in self.chosen(rows).items()}
        return {name: models[name] for name in self._order}

    def chosen(self, rows: Sequence[Mapping[str, float]]) -> dict[str, str]:
        """The output that each choice names after these rows of the history."""
        return {name: best.choice(list(self._outputs), rows) for name, best in self._best.items()}

    def columns(
        self, evaluate: Callable[[Vector], Mapping[str, float]], rows: Sequence[Mapping[str, float]]
    ) -> dict[str, float]:
        """The columns of an evaluation now, after these rows: the scores of each model."""
        scores = {name: evaluate(x) for name, x in self.computed().items()}
        row = {f"{name}_{score}": value for name, found in scores.items() for score, value in found.items()}
        for name, best in self._best.items():
            chosen = best.choice(list(scores), [*rows, row])
            best.require_held_out(scores[chosen])
            row |= {f"{name}_{score}": value for score, value in scores[chosen].items()}
            row[f"{name}_choice"] = self._order.index(chosen)
        return row

    def state(self) -> dict[str, torch.Tensor]:
        """All states by name, for checkpoints. Choices have none: they are made by the history."""
        return {
            f"output.{name}.{field}": value
            for name, state in self._states.items()
            for field, value in parts(state).items()
        }

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continue from what ``state`` gave."""
        for name, old in self._states.items():
            values = {field: state[f"output.{name}.{field}"].to(value) for field, value in parts(old).items()}
            self._states[name] = replace(old, **values)
