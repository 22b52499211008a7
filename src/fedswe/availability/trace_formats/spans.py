"""What every format is read into: who was available from when to when, and when each device was observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedswe.errors import require

LONGEST = 100_000_000  # intervals of a trace; a small pickle can name the same list millions of times


@dataclass
class Spans:
    """Columns of client, start and end, filled device by device."""

    client: list[Any] = field(default_factory=list)
    start: list[Any] = field(default_factory=list)
    end: list[Any] = field(default_factory=list)

    def add(self, client: Any, start: Sequence[Any], end: Sequence[Any], name: str) -> None:
        require(len(self.start) + len(start) <= LONGEST, f"{name} has more than {LONGEST:,} intervals")
        self.client += [client] * len(start)
        self.start += start
        self.end += end

    def columns(self) -> dict[str, list[Any]]:
        return {"client": self.client, "start": self.start, "end": self.end}


@dataclass(frozen=True)
class Trace:
    """The intervals of a file; `observed` is empty where the format does not say when a device was observed."""

    available: Spans
    observed: Spans
    dated: bool = False  # whether the times are seconds since 1970
