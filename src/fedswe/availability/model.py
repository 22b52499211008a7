"""An availability model: base probabilities p_i and how they change over the rounds, or rounds that were recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedswe.availability.schedule import Bernoulli, Floats, LegacyBernoulli, Schedule
from fedswe.core import in_memory, keys
from fedswe.core.value import Natural, Value
from fedswe.errors import FedsweError, require, warn

# none: every client and round is drawn for itself; rounds: a client's rounds depend on each other, clients do not;
# clients: they depend on each other too
Dependence = Literal["none", "rounds", "clients"]

Part = Annotated[float, Field(ge=0, lt=1)]  # of a whole, and not all of it


@dataclass(frozen=True)
class Population:
    """What an availability model may know of the clients: their number, their labels, and how much data they have."""

    m: int
    drawn: Floats | None = None  # [m, classes], the Dirichlet draw nu_i
    realised: Floats | None = None  # [m, classes], the label shares of the data each client got
    legacy: np.random.RandomState | None = None  # for stream = "legacy": its generator, after the partition was drawn
    sizes: npt.NDArray[np.int64] | None = None  # [m], number of samples


@dataclass(frozen=True)
class Availability(Value, ABC):
    """A named model with its parameters; ``schedule`` applies it to clients and a seed."""

    title: ClassVar[str]

    @abstractmethod
    def schedule(self, who: Population, seed: int) -> Schedule:
        """The available clients of one run."""

    def rounds(self) -> int | None:
        """How many rounds the model knows, which a run then has by default; None: any number."""
        return None

    def clients(self) -> int | None:
        """How many clients the model lists; None if it applies to any number."""
        return None

    def dependence(self) -> Dependence:
        """What depends on what, given the probabilities; a record is taken as it is."""
        return "none"

    def cycle(self) -> int | None:
        """The number of rounds after which the probabilities repeat; None if they do not, or it is not known."""
        return None


@dataclass(frozen=True)
class Probabilistic(Availability):
    """p_i^t = clip(p_i f_i(t), 0, 1) with independent draws."""

    p: float | list[float] | Literal["labels", "dirichlet"] = "labels"  # p_i: a number, one each, or of nu_i; see base
    proportions: Literal["realised", "drawn"] = "realised"  # nu_i, the label shares: released code / the paper
    stream: Literal["keyed", "legacy"] = "keyed"  # legacy: the released code's draws, bit for bit

    def __post_init__(self) -> None:
        if isinstance(self.p, str):
            legacy = self.p == "dirichlet" and self.stream == "legacy"
            require(not legacy, 'p = "dirichlet" has no legacy stream: use stream = "keyed"')
            return
        values = self.p if isinstance(self.p, list) else [self.p]
        for value in values:
            require(0 <= value <= 1, f"p must be within [0, 1], not {value}")
        require(any(values), "p is 0 or empty: no client would ever be available; give a probability above 0")

    @abstractmethod
    def factor(self, t: int, m: int) -> Floats | float:
        """f_i(t), one number or one per client."""

    def clients(self) -> int | None:
        # Legacy draws follow those of the partition, so they need the task.
        return len(self.p) if isinstance(self.p, list) and self.stream == "keyed" else None

    def probabilities(self, t: int, base: Floats) -> Floats:
        return np.clip(base * self.factor(t, len(base)), 0.0, 1.0)

    def schedule(self, who: Population, seed: int) -> Schedule:
        base = self.base(who, seed)

        def prob(t: int) -> Floats:
            return self.probabilities(t, base)

        if self.stream == "legacy":
            assert who.legacy is not None
            return LegacyBernoulli(who.m, prob, who.legacy)
        return Bernoulli(who.m, seed, prob)

    def base(self, who: Population, seed: int) -> Floats:
        """p_i of every client: as given, or of its label shares nu_i.

        labels: <nu_i, phi>, phi_c ~ U(0, 1) for the first half of the C classes and U(0, 1/2) for the rest. dirichlet:
        FedAU's, max(0.02, 0.1 C <nu_i, phi>), phi ~ Dirichlet(0.1).
        """
        if self.p == "labels":
            return self._label_driven(who, seed)
        if self.p == "dirichlet":
            shares = self._shares(who)
            classes = shares.shape[1]
            phi = keys.generator(seed, "Dirichlet label weights").dirichlet(np.full(classes, 0.1))
            return np.asarray(np.clip(0.1 * classes * (shares @ phi), 0.02, 1.0))
        if isinstance(self.p, list):
            found = f"availability.p has {len(self.p)} values for {who.m} clients"
            require(len(self.p) == who.m, f"{found}: give one per client")
            return np.array(self.p, dtype=np.float64)
        return np.full(who.m, float(self.p))

    def _label_driven(self, who: Population, seed: int) -> Floats:
        if who.realised is None and who.drawn is None:
            drawn = "the task has no labels, so p_i of each client is drawn from U(0.1, 1)"
            warn(f"{drawn}: set availability.p to a number or a list to choose it")
            return keys.generator(seed, "unlabelled probabilities").uniform(0.1, 1.0, who.m)
        shares = self._shares(who)
        classes = shares.shape[1]
        rng = who.legacy or keys.generator(seed, "label weights")
        half = (classes + 1) // 2
        phi = np.concatenate([rng.uniform(0, 1, half), rng.uniform(0, 0.5, classes - half)])
        return np.asarray(np.clip(shares @ phi, 0.0, 1.0))

    def _shares(self, who: Population) -> Floats:
        shares = who.realised if self.proportions == "realised" else who.drawn
        if shares is None:
            unknown = f'availability.proportions = "{self.proportions}" is not known for this task'
            raise FedsweError(f"{unknown}: choose the other one, or give availability.p a number or a list")
        return shares


# of recorded rounds ----------------------------------------------------------------------------------------
class Recording(Schedule, Protocol):
    """A schedule of rounds that were recorded, not drawn."""

    length: int  # rounds recorded; a schedule may repeat them

    def available_rounds(self, first: int, after: int) -> Floats:
        """In how many of the rounds `first` to `after` - 1 of the record each client is available."""


@dataclass(frozen=True, kw_only=True)
class Recorded(Availability):
    """A model whose rounds come from a file, or from a content that a script holds in memory."""

    file: str = field(default="", kw_only=False)  # path of the record
    prob: Literal["unknown", "estimate"] = "unknown"  # estimate: estimate the probabilities from the recorded rounds
    prob_window: Natural = 0  # rounds around each round that its estimate uses; 0 = all rounds
    digest: str = ""  # names a content that a script holds in memory; from_array sets it

    _held: object = field(default=None, init=False, repr=False, compare=False)  # the content lives as long as its users

    def __post_init__(self) -> None:
        require(self.prob == "estimate" or not self.prob_window, 'prob_window is for prob = "estimate"')
        if self.digest:
            with suppress(FedsweError):  # where the content is not used, the configuration can still be read
                object.__setattr__(self, "_held", self._content())

    @classmethod
    def _holding(cls, digest: str, content: Any, keys: dict[str, Any]) -> Self:
        """An instance that names this content."""
        content = in_memory.hold(digest, content)  # the local variable keeps it until the instance does
        made = cls(**keys, digest=digest)
        assert made._held is content
        return made

    def _content(self) -> Any:
        return in_memory.find(self.digest, f"{type(self).__name__}.from_array")

    def _checked(self, record: Recording, name: str) -> Schedule:
        """The schedule of a record: clients that are never available are told, probabilities added if wanted."""
        never = int((record.available_rounds(0, record.length) == 0).sum())
        rounds = f"the {record.length} rounds"
        require(never < record.m, f"{name}: no client is available in any of {rounds}, so nothing would be trained")
        if never:
            warn(f"{name}: {never} of {record.m} clients are never available in {rounds}")
        if self.prob == "unknown":
            return record
        warn(f"{name}: the probabilities are estimates from the recorded rounds, not the true ones")
        return Estimated(record, self.prob_window)


class Estimated:
    """A record with p_i^t = (1 + available rounds) / (2 + rounds), over a window of rounds around t.

    The added ones (Laplace's rule) keep every estimate above 0 and below 1. At the ends of the record the window is
    shorter.
    """

    def __init__(self, record: Recording, window: int) -> None:
        self.m, self.rounds, self.sample = record.m, record.rounds, record.sample
        self.record, self._window = record, window
        self._overall = self._share(0, record.length)

    def prob(self, t: int) -> Floats:
        if self._window == 0:
            return self._overall
        first = t % self.record.length - (self._window - 1) // 2
        return self._share(max(first, 0), min(first + self._window, self.record.length))

    def _share(self, first: int, after: int) -> Floats:
        return (1.0 + self.record.available_rounds(first, after)) / (2.0 + after - first)
