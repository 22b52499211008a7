"""The samples of clients in torch: one data set of which each client has a part, or samples loaded client by client."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from fedswe.core import keys
from fedswe.errors import FedsweError, mistakes_as
from fedswe.tasks.data_set import Arrays, DataSet, chunks, labels, placed, resident, samples
from fedswe.tasks.partition import Indices
from fedswe.tasks.problem import Setting

Samples = tuple[torch.Tensor, torch.Tensor]  # inputs [N, ...] and targets [N, ...]
# What models are scored on, piece by piece: by train, held_out or test, and group of clients; empty: all of them
Scored = dict[tuple[str, str], Callable[[], Iterator[Samples]]]
Load = Callable[[int], object]  # gives the samples of a client
Whose = Callable[[int], str]  # says whose a sample is, for messages

_KEPT_BYTES = 2**31  # of samples loaded client by client
_MOST_SAMPLES = 2**32  # of a client, where an index is the number of the client times this plus a position
_CALIBRATION = 4096  # inputs at most that running statistics are computed from
_CALIBRATION_BATCH = 256


class PooledSamples:
    """One data set on the device; client i has the samples with the indices parts[i]."""

    def __init__(
        self,
        data: DataSet,
        parts: Sequence[Indices],
        setting: Setting,
        kept_back: Indices | None = None,
        groups: Mapping[str, tuple[Indices, Indices]] | None = None,  # training and test samples of groups of clients
        scores_train: bool = True,
    ) -> None:
        self.m, device = len(parts), setting.device
        self._scores_train = scores_train
        self.data = resident(data, setting.dtype, device)
        self.shape = tuple(self.data.x_train.shape[1:])
        self._sizes = np.array([len(part) for part in parts])  # on the host: shapes depend on it
        self.largest_size = int(self._sizes.max())
        # The parts one after another: a table would be as wide as the largest.
        self._flat = torch.as_tensor(np.concatenate(parts), device=device)
        self._starts = torch.as_tensor(np.cumsum(self._sizes) - self._sizes, device=device)
        self._kept_back = np.arange(0) if kept_back is None else kept_back
        self._groups = groups or {}

    def sizes(self, clients: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """How many samples these clients have."""
        return np.asarray(self._sizes[clients])

    def index(self, clients: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """What finds the samples at these positions [n, ...] of n clients [n, 1...]."""
        return self._flat[self._starts[clients] + position]

    def gather(self, index: torch.Tensor) -> Samples:
        """The samples [n, B] of n clients, or [B] of one."""
        inputs, targets = self.data.x_train, self.data.y_train
        # index_select copies whole rows; indexing with [...] is four times slower here.
        found = inputs.index_select(0, index.flatten()).reshape(*index.shape, *inputs.shape[1:])
        return found, targets[index]

    def part(self, client: int) -> torch.Tensor:
        """The indices of a client's samples in the data set."""
        start = int(self._starts[client])
        return self._flat[start : start + int(self._sizes[client])]

    def all_of(self, client: int) -> Samples:
        part = self.part(client)
        return self.data.x_train[part], self.data.y_train[part]

    def scored(self) -> Scored:
        data, held = self.data, self._kept_back
        train, test = (data.x_train, data.y_train), (data.x_test, data.y_test)
        found: list[tuple[str, str, Samples, Indices | None]] = [
            ("train", "", train, np.setdiff1d(np.arange(len(train[1])), held) if len(held) else None),
            ("held_out", "", train, held),
            ("test", "", test, None),
        ]
        for group, (in_train, in_test) in self._groups.items():
            found += [("train", group, train, in_train), ("test", group, test, in_test)]
        return {
            (name, group): partial(_pieces, of, None if rows is None else torch.as_tensor(rows, device=of[1].device))
            for name, group, of, rows in found
            if len(of[1] if rows is None else rows) and (self._scores_train or name != "train")
        }

    def calibration(self, least: int) -> list[torch.Tensor]:
        """Batches of at least so many inputs, from which running statistics are computed: of the test set if there is
        one, without its targets, because a server has nothing else; empty if there are none here."""
        return _some_of(self.data.x_test if len(self.data.x_test) >= least else self.data.x_train, least)


class LoadedSamples:
    """Samples that a function loads client by client; as many clients are kept as fit into memory."""

    data = None
    largest_size = 0  # not known

    def __init__(
        self, m: int, load: Load, test: Arrays | None, setting: Setting, groups: dict[str, Indices], scores_train: bool
    ) -> None:
        self.m, self._load, self._setting = m, load, setting
        self._groups, self._scores_train = groups, scores_train  # clients by name of their group
        self._kept: OrderedDict[int, Samples] = OrderedDict()
        self._bytes = 0
        self._like: Arrays | None = None  # a sample of the first client
        self.classes = 0  # labels must be less; 0: the targets are no labels
        self.shape = tuple(self.all_of(0)[0].shape[1:])
        self.test = None if test is None else self._placed(samples(test, "the test set", self._like))

    def all_of(self, client: int) -> Samples:
        """Every client is checked when its samples are loaded: most are loaded late, or never."""
        if client in self._kept:
            self._kept.move_to_end(client)
            return self._kept[client]
        with mistakes_as(f"client {client}: its samples cannot be loaded"):
            given = self._load(client)
        loaded = samples(given, f"client {client}", self._like)
        self._like = self._like or (loaded[0][:1].copy(), loaded[1][:1].copy())
        found = self._placed(loaded)
        if self.classes:
            refuse_labels(found[1], self.classes, lambda sample: f"client {client}")
        self._kept[client] = found
        self._bytes += sum(tensor.nbytes for tensor in found)
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._bytes -= sum(tensor.nbytes for tensor in self._kept.popitem(last=False)[1])
        return found

    def _placed(self, loaded: Arrays) -> Samples:
        dtype, device = self._setting.dtype, self._setting.device
        return placed(loaded[0], dtype, device), placed(labels(loaded[1]), dtype, device)

    def sizes(self, clients: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        return np.array([len(self.all_of(int(i))[1]) for i in clients])

    def index(self, clients: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return clients * _MOST_SAMPLES + position

    def gather(self, index: torch.Tensor) -> Samples:
        if index.ndim == 1:
            inputs, targets = self.gather(index[None])
            return inputs[0], targets[0]
        found = []
        for client, position in zip((index[:, 0] // _MOST_SAMPLES).tolist(), index % _MOST_SAMPLES, strict=True):
            inputs, targets = self.all_of(client)
            found.append((inputs[position], targets[position]))
        return torch.stack([x for x, _ in found]), torch.stack([y for _, y in found])

    def scored(self) -> Scored:
        train: Scored = {("train", ""): partial(self._pieces, range(self.m))}
        test: Scored = {} if self.test is None else {("test", ""): partial(_pieces, self.test)}
        groups: Scored = {("train", name): partial(self._pieces, who) for name, who in self._groups.items()}
        return train | test | groups if self._scores_train else test

    def _pieces(self, clients: Iterable[int]) -> Iterator[Samples]:
        for client in clients:
            yield from _pieces(self.all_of(int(client)))

    def calibration(self, least: int) -> list[torch.Tensor]:
        if self.test is not None and len(self.test[0]) >= least:
            return _some_of(self.test[0], least)
        each = max(1, _CALIBRATION // self.m)
        return _some_of(torch.cat([self.all_of(i)[0][:each] for i in range(min(self.m, _CALIBRATION))]), least)


ClientSamples = PooledSamples | LoadedSamples


def refuse_labels(targets: torch.Tensor, classes: int, whose: Whose) -> None:
    """Refuse labels that are not from 0 to classes - 1."""
    for place in torch.nonzero((targets < 0) | (targets >= classes))[:1].tolist():
        raise FedsweError(
            f"{whose(place[0])}: labels must be from 0 to {classes - 1}, found {int(targets[tuple(place)])} "
            "(quantities that are no labels must be floats)"
        )


def _pieces(samples: Samples, rows: torch.Tensor | None = None) -> Iterator[Samples]:
    """The samples with these indices, or all, piece by piece."""
    inputs, targets = samples
    for part in chunks(len(targets if rows is None else rows), inputs.device):
        these = part if rows is None else rows[part]
        yield inputs[these], targets[these]


def _some_of(inputs: torch.Tensor, least: int) -> list[torch.Tensor]:
    """Batches of the inputs in a random order, which is the same everywhere: data sets are often sorted."""
    if len(inputs) < least:
        return []
    order = keys.generator(0, "calibration").permutation(len(inputs))[:_CALIBRATION]
    shuffled = inputs[torch.as_tensor(order, device=inputs.device)]
    batches = list(torch.split(shuffled, _CALIBRATION_BATCH))
    return batches[:-1] if len(batches) > 1 and len(batches[-1]) < _CALIBRATION_BATCH else batches
