"""A task of your own from a model and data in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt

from fedswe.core import in_memory, keys
from fedswe.core.in_memory import digest
from fedswe.errors import FedsweError, require
from fedswe.tasks.data_set import DataSet
from fedswe.tasks.partition import Indices, Partition, Parts, clients_by_group, divide, realised_shares
from fedswe.tasks.problem import Problem, Setting, Task

if TYPE_CHECKING:
    from torch import nn

    from fedswe.tasks.losses import Function, Objective

Array = npt.NDArray[Any]

_CLASSES = 100_000  # a larger label is a mistake: every label up to the largest gets a share per client


def from_data(
    model: nn.Module | Callable[[], nn.Module],
    train: Any,
    test: Any = None,
    *,
    clients: int | Sequence[int] | Array | None = None,
    loss: str | Function = "cross_entropy",
    metrics: Sequence[str] | Mapping[str, Function] | None = None,
    partition: Partition = "dirichlet",
    alpha: float = 0.1,
    shards: int = 2,
    groups: Sequence[str] | Mapping[Any, str] | None = None,
    train_scores: bool = True,
) -> DataTask:
    """A task from your model and your data.

    model      a module, or a function that makes one; the function is called once per seed, which seeds torch
    train      a list with (inputs, targets) or a torch Dataset for each client;
               or one (inputs, targets) or Dataset, with `clients` an array of client ids, one per sample (client i is
               the i-th of the sorted ids);
               or one (inputs, targets) or Dataset to be divided: `clients` a number, `partition`, `alpha`, `shards`;
               or a function load(client) that returns (inputs, targets), with `clients` a number
    test       (inputs, targets) or a Dataset; or, for scores by group, a list with one for each client
    loss       cross_entropy, mse, l1, huber, bce, a torch loss, or a function that gives one number per sample
    metrics    names (accuracy, mae, rmse, r2), or functions of outputs and targets by name
    groups     the name of each client's group, or a mapping from client ids to them: scores are also given by group
    train_scores  whether models are scored on all training samples too; False saves loading all of them

    Inputs that are integers stay integers (tokens); floats get the number format of the run.
    """
    from fedswe.tasks.losses import Objective

    kind = type(model).__name__
    require(callable(model), f"the model must be a torch.nn.Module or a function that makes one, not {kind}")
    objective = Objective.of(loss, metrics)
    if callable(train) and not hasattr(train, "__getitem__"):
        require(_is_number(clients), "train is a function: give the number of clients, e.g. clients=10")
        by_group = clients_by_group(groups, int(cast(int, clients)))
        content = Content(model, objective, load=train, groups=by_group, train_scores=train_scores)
        content.test = None if test is None else _samples(test, "the test set")
        fixed: Literal["given"] | Partition = "given"
    else:
        content, clients, fixed = _pooled(model, objective, train, test, clients, partition, groups)
        content.train_scores = train_scores
    content.check()
    identity = digest({**vars(content), "objective": (loss, metrics), "data": content.data and vars(content.data)})
    content = in_memory.hold(identity, content)  # kept in a variable: the task finds it there
    task = DataTask(identity, int(cast(int, clients)), fixed, alpha, shards)
    task.check()
    return task


@dataclass(eq=False)
class Content:
    """What a task holds in memory."""

    model: Any
    objective: Objective
    data: DataSet | None = None
    owners: Array | None = None  # the client of each training sample; None: to be divided
    test_owners: Array | None = None  # the client of each test sample, if they have one
    load: Callable[[int], Any] | None = None
    test: Any = None  # beside `load`: (inputs, targets)
    groups: dict[str, Indices] = field(default_factory=dict)  # clients by name of their group
    train_scores: bool = True

    def module(self) -> Any:
        from torch import nn

        return copy.deepcopy(self.model) if isinstance(self.model, nn.Module) else self.model()

    def where(self, sample: int) -> str:
        """Whose training sample this is, for messages."""
        return "the training data" if self.owners is None else f"client {self.owners[sample]}"

    @cached_property
    def labels(self) -> npt.NDArray[np.int64] | None:
        """The classes of the training samples, if their targets are classes."""
        y = None if self.data is None else self.data.y_train
        is_class = y is not None and y.ndim == 1 and y.dtype.kind in "biu" and not self.objective.regression
        return y.astype(np.int64) if is_class and y is not None else None

    def check(self) -> None:
        """Refuse numbers that cannot be trained on."""
        if self.data is None:
            return
        for name, values in (("inputs", self.data.x_train), ("targets", self.data.y_train)):
            if (bad := _not_finite(values)) is not None:
                raise FedsweError(f"{self.where(bad)}: the {name} hold NaN or infinity (sample {bad}): replace them")
        self.refuse_labels(_CLASSES)
        for name, values in (("inputs", self.data.x_test), ("targets", self.data.y_test)):
            bad = _not_finite(values)
            require(
                bad is None, f"the test set: the {name} hold NaN or infinity (sample {bad}): remove or replace them"
            )

    def refuse_labels(self, classes: int) -> None:
        """Refuse labels that are not from 0 to classes - 1."""
        if self.labels is None:
            return
        for sample in np.flatnonzero((self.labels < 0) | (self.labels >= classes))[:1].tolist():
            found = self.labels[sample]
            raise FedsweError(f"{self.where(sample)}: labels must be from 0 to {classes - 1}, found {found}")


@dataclass(frozen=True)
class DataTask(Task):
    """Your own model and data, given in Python: `fedswe.tasks.from_data(model=..., train=..., test=...)`.

    On the command line, name a function that returns it: task.name=./file.py:function.
    """

    digest: str = ""  # of the model and the data, which are in the memory of the script
    clients: int = 1  # m, number of clients
    partition: Partition | Literal["given"] = "given"  # how one data set is divided; given: clients have their samples
    alpha: float = 0.1  # concentration of the partitions dirichlet, two_groups and uneven
    shards: int = 2  # pieces for each client, with partition = "shards"

    title: ClassVar[str] = "your own model and data, from Python (fedswe.tasks.from_data)"

    def __post_init__(self) -> None:
        require(
            self.digest,
            "from_data is made in Python: fedswe.tasks.from_data(...); here name a function that returns it, "
            "task.name=./file.py:function",
        )
        require(1 <= self.clients <= 10**7, f"clients must be from 1 to 10^7, not {self.clients}")
        require(0 < self.alpha < float("inf"), f"alpha must be positive, not {self.alpha:g}")
        require(self.shards >= 1, f"shards must be at least 1, not {self.shards}")
        # Kept by the task: the content lives as long as a task that uses it.
        object.__setattr__(self, "_content", in_memory.find(self.digest, "fedswe.tasks.from_data"))

    @property
    def content(self) -> Content:
        content: Content = self.__dict__["_content"]
        return content

    def check(self) -> None:
        """Build it once, so that a mistake shows where the task is made."""
        import torch

        from fedswe.tasks.supervised_problem import SupervisedProblem

        problem = self.build(Setting(0, torch.float32, torch.device("cpu")))
        if self.content.labels is not None and isinstance(problem, SupervisedProblem) and problem.data is not None:
            with torch.no_grad():
                outputs = problem.network.logits(problem.start, problem.data.x_train[:1])
            self.content.refuse_labels(outputs.shape[1])

    def build(self, setting: Setting) -> Problem:
        from fedswe.tasks import checks  # these import torch
        from fedswe.tasks.client_samples import PooledSamples
        from fedswe.tasks.loaded import loaded_problem
        from fedswe.tasks.network import initial_network
        from fedswe.tasks.supervised_problem import SupervisedProblem

        content = self.content
        if content.load is not None:
            return loaded_problem(
                self.clients, content.module, content.load, content.test, content.objective, content.groups,
                content.train_scores, setting,
            )  # fmt: skip
        assert content.data is not None
        divided = self._divided(content, setting)
        groups = self._groups(content, divided)
        samples = PooledSamples(content.data, divided.parts, setting, groups=groups, scores_train=content.train_scores)
        network = initial_network(content.module, setting.seed)
        problem = SupervisedProblem(samples, network, content.objective, setting)
        few, test = (samples.data.x_train[:4], samples.data.y_train[:4]), (samples.data.x_test, samples.data.y_test)
        checks.check_fit(network, content.objective, problem.start, few, content.where(0))
        checks.probe(network, content.objective, problem.start, few)
        if len(test[1]):
            checks.check_fit(network, content.objective, problem.start, test, "the test set")
        problem.refuse_small(np.arange(self.clients))
        problem.drawn, problem.realised, problem.sizes = divided.drawn, divided.realised, divided.sizes
        return problem

    def _divided(self, content: Content, setting: Setting) -> Parts:
        assert content.data is not None
        if self.partition != "given":
            rng = setting.legacy or keys.generator(setting.seed, "partition")
            everything = np.arange(len(content.data.y_train))
            classes = 0 if content.labels is None else content.data.classes
            return divide(
                everything, content.labels, self.clients, self.partition, self.alpha, self.shards, rng, classes
            )
        assert content.owners is not None
        order = np.argsort(content.owners, kind="stable")
        sizes = np.bincount(content.owners, minlength=self.clients)
        parts = np.split(order, np.cumsum(sizes)[:-1])
        if content.labels is None:
            return Parts(parts)
        shares = realised_shares(content.labels, parts, content.data.classes)
        return Parts(parts, shares, shares)

    def _groups(self, content: Content, divided: Parts) -> dict[str, tuple[Indices, Indices]]:
        """The training and test samples of each group."""
        found = {}
        for name, clients in content.groups.items():
            train = np.sort(np.concatenate([divided.parts[i] for i in clients]))
            owners = content.test_owners
            test = np.empty(0, dtype=np.int64) if owners is None else np.flatnonzero(np.isin(owners, clients))
            found[name] = (train, test)
        return found


def _pooled(
    model: Any, objective: Objective, train: Any, test: Any, clients: Any, partition: Partition, groups: Any
) -> tuple[Content, int, Partition | Literal["given"]]:
    """One data set in memory, and whose samples are whose."""
    owners: Array | None = None
    ids: list[Any] | None = None
    fixed: Partition | Literal["given"] = "given"
    if isinstance(train, list):
        require(clients in (None, len(train)), f"train is a list of {len(train)} clients: leave out clients")
        require(train, "train is an empty list: give (inputs, targets) for each client")
        each = [_samples(given, f"client {i}") for i, given in enumerate(train)]
        _same_shapes(each)
        x, y = (np.concatenate(arrays) for arrays in zip(*each, strict=True))
        owners = np.repeat(np.arange(len(each)), [len(targets) for _, targets in each])
        count = len(each)
    else:
        x, y = (values.copy() for values in _samples(train, "the training data"))  # the script may change its own
        require(clients is not None, "give clients: how many, or an array with the client of each sample")
        if _is_number(clients):
            count, fixed = int(clients), partition
        else:
            owners, ids = _owners(clients, len(y))
            count = len(ids)
    test_owners: Array | None = None
    if test is None:
        x_test, y_test = x[:0], y[:0]
    elif isinstance(test, list):
        require(
            len(test) == count, f"test is a list of {len(test)} for {count} clients: give one for each, or one for all"
        )
        of_clients = [_samples(given, f"the test set of client {i}") for i, given in enumerate(test)]
        _same_shapes(of_clients, "the test set of client")
        x_test, y_test = (np.concatenate(arrays) for arrays in zip(*of_clients, strict=True))
        test_owners = np.repeat(np.arange(count), [len(targets) for _, targets in of_clients])
    else:
        x_test, y_test = (values.copy() for values in _samples(test, "the test set"))
    for name, a, b in (("inputs", x, x_test), ("targets", y, y_test)):
        require(
            a.shape[1:] == b.shape[1:],
            f"the {name} of the test set have shape {list(b.shape[1:])} per sample, in training {list(a.shape[1:])}",
        )
    require(groups is None or fixed == "given", "groups needs given clients: a list, or an array of client ids")
    data = DataSet(x, y, x_test, y_test)
    content = Content(model, objective, data, owners, test_owners, groups=clients_by_group(groups, count, ids))
    return content, count, fixed


def _is_number(clients: Any) -> bool:
    return isinstance(clients, int | np.integer) and not isinstance(clients, bool)


def _not_finite(values: Array) -> int | None:
    """The first sample with NaN or infinity."""
    if values.dtype.kind != "f":
        return None
    finite = np.abs(values) <= np.finfo(np.float32).max  # larger numbers are infinite in a run in float32
    return None if finite.all() else int(np.argwhere(~finite)[0, 0])


def _owners(clients: Any, samples: int) -> tuple[Array, list[Any]]:
    """Client ids as numbers from 0, and the ids in their order."""
    ids = np.asarray(clients)
    if ids.dtype == object:
        missing = [i for i, name in enumerate(ids.tolist()) if str(name) in ("None", "nan", "<NA>", "NaT", "")]
        require(not missing, f"clients: sample {missing[:1]} has no id: leave it out")
        ids = ids.astype(str)
    require(ids.ndim == 1 and len(ids) == samples, f"clients has {ids.size} ids for {samples} samples: give one each")
    require(ids.dtype.kind in "iuUS", f"clients must be whole numbers or texts, not {ids.dtype}")
    names, owners = np.unique(ids, return_inverse=True)
    return owners.astype(np.int64), names.tolist()


def _same_shapes(each: Sequence[tuple[Array, Array]], whose: str = "client") -> None:
    for i, samples in enumerate(each):
        for name, mine, first in zip(("inputs", "targets"), samples, each[0], strict=True):
            require(
                mine.shape[1:] == first.shape[1:] and mine.dtype.kind == first.dtype.kind,
                f"{whose} {i}: {name} of shape {list(mine.shape[1:])} ({mine.dtype}) per sample, those of client 0 "
                f"{list(first.shape[1:])} ({first.dtype})",
            )


def _samples(given: Any, where: str) -> tuple[Array, Array]:
    """(inputs, targets) as arrays, from arrays, tensors, data frames, or a torch Dataset."""
    if hasattr(given, "tensors"):  # a TensorDataset: as a whole, not sample by sample
        given = given.tensors
    elif (
        hasattr(given, "__getitem__") and hasattr(given, "__len__") and not isinstance(given, tuple | list | np.ndarray)
    ):
        given = _stacked(given, where)
    require(
        isinstance(given, tuple | list) and len(given) == 2,
        f"{where}: give (inputs, targets) or a torch Dataset, not {type(given).__name__}",
    )
    inputs, targets = (
        _array(values, f"{where}: the {name}") for values, name in zip(given, ("inputs", "targets"), strict=True)
    )
    require(len(inputs) == len(targets), f"{where} has {len(inputs)} inputs for {len(targets)} targets")
    require(len(inputs), f"{where} has no samples: leave it out")
    return inputs, targets


def _stacked(dataset: Any, where: str) -> tuple[Array, Array]:
    """All samples of a torch Dataset; transforms with random results are applied once."""
    try:
        items = [dataset[i] for i in range(len(dataset))]
        require(items, f"{where} has no samples: leave it out")
        inputs, targets = zip(*items, strict=True)
    except FedsweError:
        raise
    except Exception as error:
        raise FedsweError(
            f"{where}: its samples cannot be read as (input, target) ({type(error).__name__}: {error})"
        ) from None
    for name, values in (("input", inputs), ("target", targets)):
        shapes = [np.shape(value) for value in values]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
        require(other is None, f"{where}: the {name} of sample {other} has another shape than that of sample 0")
    return np.stack([np.asarray(x) for x in inputs]), np.stack([np.asarray(y) for y in targets])


def _array(values: Any, where: str) -> Array:
    values = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise FedsweError(f"{where} are not an array of numbers ({error})") from None
    if array.dtype == object:  # such as the nullable columns of data frames
        with suppress(TypeError, ValueError):
            array = np.array(array.tolist())
    masked = isinstance(values, np.ma.MaskedArray) and bool(np.ma.is_masked(values))
    require(not masked, f"{where} are masked: fill or leave out what is masked")
    require(array.dtype.itemsize <= 8, f"{where} are {array.dtype}: convert them to float64")
    require(array.dtype.kind in "biuf", f"{where} must be numbers, not {array.dtype}: convert them first")
    require(array.ndim, f"{where} must have one row per sample")
    return array
