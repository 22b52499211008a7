"""The models a run is evaluated at: the server model, the client mean, and averages over rounds.

An output is a frozen dataclass like a transform: hyper-parameters only, its state is a record of tensors that is
passed in and returned. It reads a run (an engine, or the server of a deployment) and never changes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fedswe.core.algorithm import Algorithm
from fedswe.core.checked import Checked
from fedswe.core.records import Model, Nothing, Vector, parts
from fedswe.errors import require

if TYPE_CHECKING:
    import torch


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
class Output(Checked, ABC):
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
        k = virtual_clients(run.algorithm)
        return (run.m * run.client_mean() + k * run.server_model()) / (run.m + k)


@dataclass(frozen=True)
class Ema(Output):
    """The exponential average of the server models: ema = decay ema + (1 - decay) x^t, from x^0 on."""

    decay: float = 0.99  # of the average, per round

    title: ClassVar[str] = "the exponential average of the server models"

    def __post_init__(self) -> None:
        require(0 <= self.decay < 1, f"ema_decay must be in [0, 1), not {self.decay:g}")

    def init(self, run: Run) -> Model:
        return Model(run.server_model())

    def after_round(self, state: Model, run: Run) -> Model:
        return Model(run.server_model().lerp(state.x, self.decay))

    def model(self, state: Model, run: Run) -> Vector:
        return state.x


def virtual_clients(algorithm: Algorithm) -> float:
    """FedSWE's k: its analysis counts m + k clients. 0 for other algorithms."""
    from fedswe.algorithms.fedswe import FedSWE

    return algorithm.k if isinstance(algorithm, FedSWE) else 0.0


class Outputs:
    """The outputs of one run by name, with their states."""

    def __init__(self, run: Run, outputs: Mapping[str, Output]) -> None:
        self._run, self._outputs = run, outputs
        self._states = {name: output.init(run) for name, output in outputs.items()}

    def after_round(self) -> None:
        self._states = {n: output.after_round(self._states[n], self._run) for n, output in self._outputs.items()}

    def models(self) -> dict[str, Vector]:
        models = {name: output.model(self._states[name], self._run) for name, output in self._outputs.items()}
        wanted = self._run.server_model().shape
        for name, x in models.items():
            require(x.shape == wanted, f"output {name}: a model of shape {list(x.shape)}, expected is {list(wanted)}")
        return models

    def state(self) -> dict[str, torch.Tensor]:
        """All states by name, for checkpoints."""
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
