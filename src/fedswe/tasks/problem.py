"""What engines need from a task: an initial model, stochastic gradients by client and round, and scores."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, fields, make_dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_type_hints

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Floats
from fedswe.core.local import Local, Precision
from fedswe.core.value import Positive, Value
from fedswe.errors import require

if TYPE_CHECKING:
    import torch
    from torch import nn

    from fedswe.core.records import Vector


Weights = Literal["samples"] | list[Positive] | None  # of clients: by their samples, as given, or all equal


@dataclass(frozen=True)
class Setting:
    """Seed, number format and device that a problem is built for."""

    seed: int
    dtype: torch.dtype
    device: torch.device
    legacy: np.random.RandomState | None = None  # draw the partition from the released code's generator


class Problem(ABC):
    """The clients' objectives F_i and their data. The global objective is their mean over clients, by weight."""

    m: int
    start: Vector  # x^0, [d]
    drawn: Floats | None = None  # label shares as drawn and as realised; None without labels
    realised: Floats | None = None
    sizes: npt.NDArray[np.int64] | None = None  # number of samples of each client; None where it is not known
    weights: Floats | None = None  # of the clients, with mean 1; None: all count the same

    def weigh(self, given: Weights) -> None:
        """Give the clients the weights of a task."""
        if given is not None:
            numbers = self.sizes if given == "samples" else given
            known = 'task.weights = "samples" needs clients whose samples are counted: give a list of numbers'
            require(numbers is not None, known)
            weights = np.array(numbers, dtype=np.float64)
            require(
                len(weights) == self.m,
                f"task.weights has {len(weights)} numbers: give one for each of {self.m} clients",
            )
            self.weights = weights / weights.mean()

    def steps(self, clients: npt.NDArray[np.int64], local: Local) -> Any:
        """How many local steps these clients take in a round: one number, or with local.epochs one for each."""
        require(not local.epochs, "local.epochs needs a task whose clients have samples: use local.steps")
        return local.steps

    @abstractmethod
    def draw(self, clients: torch.Tensor, t: int, steps: int, batch_size: int) -> Iterable[Any]:
        """The batches of each local step of round t: records whose fields are stacked over `clients` [n],
        of which [i] is that of one client."""

    @abstractmethod
    def gradient(self, x: Vector, batch: Any, precision: Precision = "fp32") -> Vector:
        """One client's stochastic gradient [d] at x [d]: the plain definition."""

    @abstractmethod
    def gradients(self, x: Vector, batch: Any, precision: Precision = "fp32") -> Vector:
        """The same for n clients at once: [n, d] at x [n, d]."""

    def family(self) -> object:
        """Problems of one family can be trained as one stack; by default each problem is trained alone."""
        return id(self)

    def joined(self, drawn: list[Any]) -> Any:
        """The draws of several problems of this family as one."""
        raise TypeError(f"{type(self).__name__} is trained alone")

    def row_size(self, batch_size: int) -> int:
        """How many numbers one client's batch holds; 0 when it does not matter."""
        return 0

    @abstractmethod
    def full_gradients(self, x: Vector, clients: torch.Tensor) -> Vector:
        """The exact gradients of F_i, [n, d] at x [n, d], for the given clients."""

    def state_dict(self, x: Vector) -> dict[str, torch.Tensor]:
        """A model as named tensors with their shapes, as torch's modules have them."""
        return {"x": x}

    def example(self) -> tuple[nn.Module, torch.Tensor] | None:
        """The network and two of its inputs; None for a task without a network."""
        return None

    @abstractmethod
    def evaluate(self, x: Vector) -> dict[str, float]:
        """Named scores of a model, e.g. train_loss and test_accuracy."""


@dataclass(frozen=True)
class Task(Value, ABC):
    """A named task with its parameters; ``build`` makes the problem of one run."""

    title: ClassVar[str]

    @abstractmethod
    def build(self, setting: Setting) -> Problem:
        """Load the data, divide them among clients, choose x^0."""

    @staticmethod
    def from_function(function: Callable[..., Task]) -> type[Task]:
        """The task that a function returns, as a class with the function's parameters."""
        types, found = get_type_hints(function), []
        for name, parameter in inspect.signature(function).parameters.items():
            value = parameter.default
            known = value is not inspect.Parameter.empty and parameter.kind != parameter.POSITIONAL_ONLY
            require(known, f"{function.__name__}: give its parameter {name} a name and a default value")
            copied = isinstance(value, list | dict)  # for every task
            default: Any = field(default_factory=partial(copy, value)) if copied else field(default=value)
            found.append((name, types.get(name, type(value)), default))
        return make_dataclass(
            function.__name__,
            found,
            bases=(Task,),
            namespace={
                "function": staticmethod(function),
                "build": lambda self, setting: _made(self).build(setting),
                "__hash__": lambda self: hash(repr(self)),  # a parameter may be a list
                "__doc__": function.__doc__ or f"The task that {function.__name__} returns.",
                "__module__": function.__module__,
            },
            frozen=True,
        )


@lru_cache(maxsize=4)
def _made(task: Any) -> Task:
    """The function is called once: it may load data, and every seed asks for it."""
    made: Task = task.function(**{f.name: getattr(task, f.name) for f in fields(task)})
    name, kind = type(task).__name__, type(made).__name__
    require(isinstance(made, Task), f"{name}() must return a task, such as from_data(...), not {kind}")
    return made
