"""How a round is run: the loop engine is the definition, the batched engine the simulator.

The names are imported when they are asked for: outputs and columns are values, and do not need torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedswe.engine.base import Engine
    from fedswe.engine.batched import BatchedEngine
    from fedswe.engine.loop import LoopEngine

    ENGINES: dict[str, type[Engine]]

_MODULES = {"Engine": "base", "BatchedEngine": "batched", "LoopEngine": "loop"}


def __getattr__(name: str) -> Any:
    if name == "ENGINES":
        return {"batched": __getattr__("BatchedEngine"), "loop": __getattr__("LoopEngine")}
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = ["ENGINES", "BatchedEngine", "Engine", "LoopEngine"]
