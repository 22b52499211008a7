"""What models of recorded rounds share: contents in memory, estimated probabilities, clients that never appear."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from fedswe.availability.model import Availability
from fedswe.availability.schedule import Bools, Floats, Schedule
from fedswe.core import in_memory
from fedswe.core.value import Natural
from fedswe.errors import FedsweError, require, warn


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
        self.m, self.rounds, self.record, self._window = record.m, record.rounds, record, window
        self._overall = self._share(0, record.length)

    def sample(self, t: int) -> Bools:
        return self.record.sample(t)

    def prob(self, t: int) -> Floats:
        if self._window == 0:
            return self._overall
        first = t % self.record.length - (self._window - 1) // 2
        return self._share(max(first, 0), min(first + self._window, self.record.length))

    def _share(self, first: int, after: int) -> Floats:
        return (1.0 + self.record.available_rounds(first, after)) / (2.0 + after - first)
