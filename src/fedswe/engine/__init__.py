"""How a round is run: the loop engine is the oracle, the batched engine the simulator."""

from fedswe.engine.base import Engine
from fedswe.engine.batched import BatchedEngine
from fedswe.engine.loop import LoopEngine

ENGINES: dict[str, type[Engine]] = {"batched": BatchedEngine, "loop": LoopEngine}

__all__ = ["ENGINES", "BatchedEngine", "Engine", "LoopEngine"]
