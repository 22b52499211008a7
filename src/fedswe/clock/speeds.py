"""How fast each client computes and communicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedswe.availability.schedule import Floats
from fedswe.availability.text_file import open_text, reason
from fedswe.core import keys
from fedswe.errors import FedsweError, require

KEY = "clock.speed_file"
COLUMNS = ("step_seconds", "download", "upload")


@dataclass(frozen=True, eq=False)
class Speeds:
    """Of each client [m]: seconds for a local step, and bytes per second; 0 bytes per second: no time at all."""

    step_seconds: Floats
    download: Floats
    upload: Floats

    @classmethod
    def drawn(
        cls, m: int, seed: int, step: tuple[float, float], download: float, upload: float, sigma: float
    ) -> Speeds:
        """Log-normal with the given medians; `step` has median and sigma, both directions have one factor."""
        compute, network = (
            np.exp(spread * keys.normal(seed, stream, np.arange(m)).numpy()) if spread else np.ones(m)
            for spread, stream in ((step[1], "compute time"), (sigma, "network speed"))
        )
        return cls(step[0] * compute, download * network, upload * network)

    def with_file(self, path: str, devices: Sequence[Any] | None) -> Speeds:
        """The same with the columns of a file, which has a row for each client, or for each device of the clients."""
        by, rows, columns = _read(path)
        m = len(self.step_seconds)
        if by == "client":
            wanted: list[Any] = [str(i) for i in range(m)]
            unknown = next((name for name in rows if name not in set(wanted)), None)
            require(unknown is None, f"{KEY}: {path} has a client {unknown!r}, but the clients are 0 to {m - 1}")
        else:
            if devices is None:
                raise FedsweError(
                    f"{KEY}: {path} has a column device, which is for availability.name=intervals: name the clients "
                    "0, 1, ... in a column client"
                )
            wanted = [None if device is None else _plain(str(device)) for device in devices]
        missing = [name for name in wanted if name is not None and name not in rows]
        require(
            not missing,
            f"{KEY}: {path} lacks {len(missing)} of {m} {by}s, first {next(iter(missing), '')}: add a row for each",
        )
        # A device that was never online does nothing, so any number will do.
        table = np.array([rows[name] if name is not None else [0.0] * len(columns) for name in wanted])
        return replace(self, **{column: table[:, j] for j, column in enumerate(columns)})


def _read(path: str) -> tuple[str, dict[str, list[float]], list[str]]:
    """Whether rows are for clients or devices; the numbers by name; and which of the columns they are."""
    text = open_text(path, KEY)
    rows: dict[str, list[float]] = {}
    try:
        lines = text.lines()
        header = [cell.lower() for cell in next(lines, (0, []))[1]]
        by = [name for name in header if name in ("client", "device")]
        columns = [name for name in header if name in COLUMNS]
        require(
            len(by) == 1 and columns and len(set(columns)) == len(columns),
            f"{KEY}: {path} must have a header with client or device, and any of {', '.join(COLUMNS)}",
        )
        places = [header.index(name) for name in columns]
        for number, cells in lines:
            where = f"{KEY}: {path}: line {number}"
            require(len(cells) == len(header), f"{where} has {len(cells)} columns, not {len(header)} as the header")
            name = _plain(cells[header.index(by[0])])
            require(name not in rows, f"{where}: the {by[0]} {name[:40]!r} has two rows")
            rows[name] = [_number(cells[place], where, header[place]) for place in places]
    except FedsweError:
        raise
    except (ValueError, OSError) as error:
        raise FedsweError(f"{KEY}: {path} cannot be read ({reason(error)})") from None
    require(rows, f"{KEY}: {path} has no rows")
    return by[0], rows, columns


def _plain(name: str) -> str:
    """Whole numbers may be written with leading zeros."""
    return str(int(name)) if name.isascii() and name.isdigit() and len(name) < 19 else name


def _number(cell: str, where: str, column: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    require(0 <= value < math.inf, f"{where}: {column} must be 0 or a positive number, not {cell[:40]!r}")
    return value
