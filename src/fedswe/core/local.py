"""Local training as a value: steps or epochs, batches, the rate and its schedule, the chain of each gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from fedswe.core.transforms import Clip, Transform
from fedswe.core.value import Natural, NonNegative, Positive, Share, Value
from fedswe.errors import require

Precision = Literal["fp32", "tf32", "bf16"]  # of the arithmetic in training


@dataclass(frozen=True)
class Local(Value):
    """How a client trains in one round: s steps of SGD along the chain's direction."""

    # s, local steps per round; 10 unless epochs are given
    steps: Annotated[int, Field(ge=1, le=10**6)] = None  # type: ignore[assignment]
    batch_size: Annotated[int, Field(ge=1, le=10**9)] = 32  # samples per step
    lr: Positive = 0.1  # eta_0, the rate of round 0
    schedule: Literal["inverse_sqrt", "constant", "cosine", "step"] = "inverse_sqrt"  # eta_l(t), see docs/configuration
    clip: NonNegative = 0.0  # L2 bound of each stochastic gradient, short for a chain that begins with clip; 0 = off
    chain: tuple[Transform, ...] = ()  # transforms of each stochastic gradient; their state starts anew each round
    decay_rounds: Natural = 0  # cosine: rounds of the decay, 0 = those of the experiment; step: rounds per step
    decay: Share = 0.1  # step: factor of the rate after every decay_rounds rounds
    precision: Precision = "fp32"  # of the arithmetic in training; weights stay in dtype
    epochs: Annotated[int, Field(ge=1, le=10**4)] | None = None  # passes over a client's samples, in place of steps

    def __post_init__(self) -> None:
        require(not (self.steps and self.epochs), "give steps or epochs (passes over a client's samples), not both")
        if not self.steps and not self.epochs:
            object.__setattr__(self, "steps", 10)
        complete = self.schedule != "step" or self.decay_rounds
        require(complete, "schedule=step needs decay_rounds: after how many rounds the rate is multiplied by decay")

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """The whole chain, the short form `clip` included."""
        return (Clip(self.clip), *self.chain) if self.clip else self.chain

    def over(self, rounds: int) -> Local:
        """The same for a run of so many rounds, over which a cosine decays unless it says otherwise."""
        return replace(self, decay_rounds=rounds) if self.schedule == "cosine" and not self.decay_rounds else self

    def lr_at(self, t: int) -> float:
        """eta_l of round t."""
        if self.schedule == "inverse_sqrt":
            return self.lr / math.sqrt(t / 10 + 1)
        if self.schedule == "cosine":
            # After its last round the rate stays as it is then: algorithms divide by it, so it is never 0.
            rounds = max(self.decay_rounds, 1)
            return self.lr * 0.5 * (1 + math.cos(math.pi * min(t, rounds - 1) / rounds))
        if self.schedule == "step":
            return self.lr * self.decay ** (t // self.decay_rounds)
        return self.lr
