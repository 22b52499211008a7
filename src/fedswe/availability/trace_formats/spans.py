"""What every format is read into: who was available from when to when, and when each device was observed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.errors import require

LONGEST = 50_000_000  # intervals of a trace; a small pickle can name the same list millions of times
LONGEST_ID = 64  # characters


@dataclass
class Spans:
    """Columns of client, start and end, filled device by device."""

    name: str  # of the file
    devices: list[Any] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))

    def add(self, device: int | str, start: Sequence[float], end: Sequence[float]) -> None:
        require(len(self.start) + len(start) <= LONGEST, f"{self.name} has more than {LONGEST:,} intervals")
        if isinstance(device, str):
            good = 0 < len(device) < LONGEST_ID and device.isprintable()
            require(good, f"{self.name}: ids need 1 to {LONGEST_ID - 1} printable characters, not {device[:40]!r}")
        self.devices.append(device)
        self.count.append(len(start))
        self.start.extend(start)
        self.end.extend(end)

    def place(self, i: int, column: str) -> str:
        """Which interval of which device a row of the columns is, for messages."""
        after = np.cumsum(self.count)
        k = int(np.searchsorted(after, i, side="right"))
        return f"device {self.devices[k]!r}, interval {i - int(after[k]) + self.count[k] + 1}"

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "client": np.repeat(np.array(self.devices), self.count),
            "start": np.frombuffer(self.start),
            "end": np.frombuffer(self.end),
        }


@dataclass(frozen=True)
class Trace:
    """The intervals of a file; `observed` is empty where the format does not say when a device was observed."""

    available: Spans
    observed: Spans
    dated: bool = False  # whether the times are seconds since 1970
