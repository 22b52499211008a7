"""A task of your own from a model and data in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fedswe.core import in_memory, keys
from fedswe.core.in_memory import digest
from fedswe.core.value import Count, Positive
from fedswe.errors import require
from fedswe.tasks.data_set import Array, Arrays, DataSet, resident, samples
from fedswe.tasks.partition import Groups, Indices, Partition, Parts, clients_by_group, divide
from fedswe.tasks.problem import Problem, Setting, Task, Weights

if TYPE_CHECKING:
    from torch import nn

    from fedswe.tasks.losses import Function, Objective


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
    groups: Groups | None = None,
    train_scores: bool = True,
    weights: Any = None,
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
    weights    of the clients: "samples", or a number for each; by default all count the same
    train_scores  whether models are scored on all training samples too; False saves loading all of them

    Inputs that are integers stay integers (tokens); floats get the number format of the run.
    """
    import torch

    from fedswe.tasks.losses import Objective

    kind = type(model).__name__
    require(callable(model), f"the model must be a torch.nn.Module or a function that makes one, not {kind}")
    objective = Objective.of(loss, metrics)
    if isinstance(train, list):
        require(clients in (None, len(train)), f"train is a list of {len(train)} clients: leave out clients")
        require(train, "train is an empty list: give (inputs, targets) for each client")
        clients = len(train)
    number = isinstance(clients, int | np.integer) and not isinstance(clients, bool)
    ids: Sequence[Any] = range(cast(int, clients)) if number else ()
    if callable(train) and not hasattr(train, "__getitem__"):
        require(number, "train is a function: give the number of clients, e.g. clients=10")
        content = Content(model, objective, load=train)
        content.test = None if test is None else samples(test, "the test set")
    else:
        require(clients is not None, "give clients: how many, or an array with the client of each sample")
        data, owners = _joined(train, "the training data", "client")
        if not number:
            owners, ids = _owners(clients, len(data[1]))
        data_test, test_owners = (data[0][:0], data[1][:0]), None
        if test is not None:
            many = len(test) if isinstance(test, list) else len(ids)
            require(many == len(ids), f"test is a list of {many} for {len(ids)} clients: give one for each or all")
            data_test, test_owners = _joined(test, "the test set", "the test set of client", data)
        content = Content(model, objective, DataSet(*data, *data_test), owners, test_owners)
    given = content.load is not None or content.owners is not None
    require(groups is None or given, "groups needs given clients: a list, or an array of client ids")
    content.groups, content.train_scores = clients_by_group(groups, ids), train_scores
    identity = digest({**vars(content), "objective": (loss, metrics), "data": content.data and vars(content.data)})
    content = in_memory.hold(identity, content)  # kept in a variable: the task finds it there
    task = DataTask(identity, len(ids), "given" if given else partition, alpha, shards, weights)
    task.build(Setting(0, torch.float32, torch.device("cpu")))  # once, so that a mistake shows where the task is made
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
    test: Arrays | None = None  # beside `load`
    groups: dict[str, Indices] = field(default_factory=dict)  # clients by name of their group
    train_scores: bool = True

    def module(self) -> Any:
        from torch import nn

        return copy.deepcopy(self.model) if isinstance(self.model, nn.Module) else self.model()

    def whose(self, sample: int) -> str:
        """Whose training sample this is, for messages."""
        loaded = "client 0" if self.load else "the training data"
        return loaded if self.owners is None else f"client {self.owners[sample]}"


@dataclass(frozen=True)
class DataTask(Task):
    """Your own model and data, given in Python: `fedswe.tasks.from_data(model=..., train=..., test=...)`.

    On the command line, name a function that returns it: task.name=./file.py:function.
    """

    digest: str = ""  # of the model and the data, which are in the memory of the script
    clients: Annotated[int, Field(ge=1, le=10**7)] = 1  # m, number of clients
    partition: Partition | Literal["given"] = "given"  # how one data set is divided; given: clients have their samples
    alpha: Positive = 0.1  # concentration of the partitions dirichlet, two_groups and uneven
    shards: Count = 2  # pieces for each client, with partition = "shards"
    weights: Weights = None  # of the clients: "samples", or a list of numbers; default: all count the same

    title: ClassVar[str] = "your own model and data, from Python (fedswe.tasks.from_data)"

    def __post_init__(self) -> None:
        require(self.digest, "from_data is made in Python: name a function that returns it, task.name=./mine.py:make")
        # Kept by the task: the content lives as long as a task that uses it.
        object.__setattr__(self, "_content", in_memory.find(self.digest, "fedswe.tasks.from_data"))

    @property
    def content(self) -> Content:
        return self.__dict__["_content"]  # type: ignore[no-any-return]

    def build(self, setting: Setting) -> Problem:
        from fedswe.tasks.checks import check  # these import torch
        from fedswe.tasks.client_samples import LoadedSamples, PooledSamples
        from fedswe.tasks.network import initial_network
        from fedswe.tasks.supervised_problem import SupervisedProblem

        content, objective = self.content, self.content.objective
        network = initial_network(content.module, setting.seed)
        network.to(setting.device, setting.dtype)
        x = network.initial().to(device=setting.device, dtype=setting.dtype)
        if content.data is None:
            assert content.load is not None
            loaded = LoadedSamples(
                self.clients, content.load, content.test, setting, content.groups, content.train_scores
            )
            loaded.classes = check(network, objective, x, loaded.all_of(0), content.whose, loaded.test)
            problem = SupervisedProblem(loaded, network, objective, setting)
            problem.weigh(self.weights)
            return problem
        data = resident(content.data, setting.dtype, setting.device)
        train, test = (data.x_train, data.y_train), (data.x_test, data.y_test)
        labelled = check(network, objective, x, train, content.whose, test) > 0
        divided = self._divided(content.data, setting, labelled)
        groups = {n: (_of(who, content.owners), _of(who, content.test_owners)) for n, who in content.groups.items()}
        pooled = PooledSamples(content.data, divided.parts, setting, None, groups, content.train_scores)
        problem = SupervisedProblem(pooled, network, objective, setting)
        problem.refuse_small(np.arange(self.clients))
        problem.drawn, problem.realised, problem.sizes = divided.drawn, divided.realised, divided.sizes
        problem.weigh(self.weights)
        return problem

    def _divided(self, data: DataSet, setting: Setting, labelled: bool) -> Parts:
        labels = data.y_train.astype(np.int64) if labelled and data.y_train.ndim == 1 else None
        classes, owners = 0 if labels is None else data.classes, self.content.owners
        if self.partition == "given":
            ends = np.cumsum(np.bincount(cast(Array, owners), minlength=self.clients))
            return Parts.of(np.split(np.argsort(cast(Array, owners), kind="stable"), ends[:-1]), labels, classes)
        rng = setting.legacy or keys.generator(setting.seed, "partition")
        everything = np.arange(len(data.y_train))
        return divide(everything, labels, self.clients, self.partition, self.alpha, self.shards, rng, classes)


def _of(clients: Indices, owners: Array | None) -> Indices:
    """The samples of these clients."""
    return np.empty(0, dtype=np.int64) if owners is None else np.flatnonzero(np.isin(owners, clients))


def _joined(given: Any, where: str, whose: str, like: Arrays | None = None) -> tuple[Arrays, Array | None]:
    """All samples, and whose each of them is, if they are given client by client."""
    if not isinstance(given, list):
        x, y = samples(given, where, like)
        return (x.copy(), y.copy()), None  # the script may change its own
    each: list[Arrays] = []
    for i, part in enumerate(given):
        each.append(samples(part, f"{whose} {i}", like or next(iter(each), None)))
    x, y = (np.concatenate(arrays) for arrays in zip(*each, strict=True))
    return (x, y), np.repeat(np.arange(len(each)), [len(targets) for _, targets in each])


def _owners(clients: Any, count: int) -> tuple[Array, list[Any]]:
    """Client ids as numbers from 0, and the ids in their order."""
    ids = np.asarray(clients)
    if ids.dtype == object:
        missing = [i for i, name in enumerate(ids.tolist()) if str(name) in ("None", "nan", "<NA>", "NaT", "")]
        require(not missing, f"clients: sample {missing[:1]} has no id: leave it out")
        ids = ids.astype(str)
    require(ids.ndim == 1 and len(ids) == count, f"clients has {ids.size} ids for {count} samples: give one each")
    require(ids.dtype.kind in "iuUS", f"clients must be whole numbers or texts, not {ids.dtype}")
    names, owners = np.unique(ids, return_inverse=True)
    return owners.astype(np.int64), names.tolist()
