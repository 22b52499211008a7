"""A column of your own in history.csv, here the norm of the server model and its distance to the client mean.

fedswe run record.columns=./examples/own_column.py:Norms
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.engine.base import Engine
from fedswe.engine.columns import Column


@dataclass(frozen=True)
class Norms(Column):
    title: ClassVar[str] = "norm of the server model and its distance to the client mean"

    def values(self, engine: Engine) -> dict[str, float]:
        server, mean = engine.server_model(), engine.client_mean()
        return {"norm_of_server": float(server.norm()), "distance_of_mean": float((server - mean).norm())}
