"""What an audit has found: parts, each with what was checked, what failed, and what could not be checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fedswe.errors import FedsweError, first_line


@dataclass
class Part:
    name: str
    checked: str = ""  # what was checked, with numbers
    failures: list[str] = field(default_factory=list)  # each names the file, line or round
    skipped: list[str] = field(default_factory=list)  # what was not checked, and what would check it
    notes: list[str] = field(default_factory=list)

    def require(self, condition: object, failure: str) -> bool:
        """Note a failure unless the condition holds."""
        if not condition:
            self.failures.append(failure)
        return bool(condition)

    def attempt(self, act: Callable[..., object], *arguments: object) -> None:
        """Note an error as a failure: files that are checked may hold anything."""
        try:
            act(*arguments)
        except FedsweError as error:
            self.failures.append(str(error))
        except Exception as error:
            self.failures.append(f"{self.name}: {first_line(error)}")


@dataclass(frozen=True)
class Replay:
    """The run, computed again from the data of all clients, compared with the server models."""

    differing: list[int]  # rounds whose server model has other bits
    compared: int  # models whose numbers were compared
    difference: float  # the largest over these models, relative to the largest coefficient where that is above 1
    client_mean_difference: float  # at the end; the simulator adds in another order, so it is rarely 0


@dataclass(frozen=True)
class Verification:
    rounds: int
    reports: int  # merged in all rounds
    parts: list[Part]
    replay: Replay | None = None  # if the data of all clients are on this machine
    recomputed: int = 0  # merges recomputed from kept reports
    replayed: int = 0  # reports that clients have replayed from their data with the same bits

    @property
    def failures(self) -> list[str]:
        return [failure for part in self.parts for failure in part.failures]

    @property
    def passed(self) -> bool:
        """Nothing that was checked has failed."""
        return not self.failures

    @property
    def complete(self) -> bool:
        """Whether every model was computed again, from the data of the clients."""
        halves = self.recomputed == self.rounds and self.replayed == self.reports
        return self.rounds > 0 and (self.replay is not None or halves)

    @property
    def exact(self) -> bool:
        """A complete proof, with equal bits."""
        return self.passed and self.complete and (self.replay is None or not self.replay.differing)
