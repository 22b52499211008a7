"""How fast each client computes and communicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.availability.schedule import Floats
from fedswe.core import keys
from fedswe.errors import FedsweError, require

if TYPE_CHECKING:
    from pandas import DataFrame

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
        table = _read(path)
        by, m = table.index.name, len(self.step_seconds)
        if by == "client":
            wanted: list[Any] = [str(i) for i in range(m)]
            unknown = next(iter(table.index[~table.index.isin(wanted)]), None)
            require(unknown is None, f"{KEY}: {path} has a client {unknown!r}, but the clients are 0 to {m - 1}")
        else:
            if devices is None:
                unknown = f"{KEY}: {path} has a column device, which is for availability.name=intervals"
                raise FedsweError(f"{unknown}: name the clients 0, 1, ... in a column client")
            wanted = [None if device is None else _plain(str(device)) for device in devices]
        missing = [name for name in wanted if name is not None and name not in table.index]
        lacking = f"{KEY}: {path} lacks {len(missing)} of {m} {by}s, first {next(iter(missing), '')}"
        require(not missing, f"{lacking}: add a row for each")
        found = table.reindex(wanted, fill_value=0.0)  # a device that was never online does nothing: any number will do
        return replace(self, **{column: found[column].to_numpy() for column in found})


def _read(path: str) -> DataFrame:
    """The columns of the file that are speeds, by client or device."""
    from fedswe.availability.table import read_text

    frame = read_text(path, KEY)
    header = [str(name).lower() for name in frame]
    by, columns = ([name for name in header if name in known] for known in (("client", "device"), COLUMNS))
    legal = len(by) == 1 and columns and len(set(columns)) == len(columns)
    require(legal, f"{KEY}: {path} must have a header with client or device, and any of {', '.join(COLUMNS)}")
    require(len(frame), f"{KEY}: {path} has no rows")
    frame = frame.set_axis(header, axis=1)
    names, values = frame[by[0]].map(_plain), frame[columns].map(_number)
    for line in names.index[names.duplicated()][:1]:
        raise FedsweError(f"{KEY}: {path}: line {line}: the {by[0]} {names[line][:40]!r} has two rows")
    for column in columns:
        for line in values.index[~values[column].between(0, math.inf, inclusive="left")][:1]:
            wrong = f"{column} must be 0 or a positive number, not {frame[column][line][:40]!r}"
            raise FedsweError(f"{KEY}: {path}: line {line}: {wrong}")
    return values.set_axis(names.rename(by[0]))


def _plain(name: str) -> str:
    """Whole numbers may be written with leading zeros."""
    return str(int(name)) if name.isascii() and name.isdigit() and len(name) < 19 else name


def _number(cell: str) -> float:
    with suppress(ValueError):
        return float(cell)
    return math.nan
