"""An algorithm of your own: FedAvg with a step that shrinks over the rounds.

fedswe show ./own_algorithm.py:Damped
fedswe run algorithm.name=./own_algorithm.py:Damped algorithm.damping=0.05
fedswe compare --algorithms fedavg,./own_algorithm.py:Damped:damping=0.05
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Nothing
from fedswe.errors import require


@dataclass(frozen=True)
class Damped(Algorithm):
    """Average the progress of the clients that report, with a smaller step in later rounds.

    x = x + lr / (1 + damping t) (1/|A|) sum_A (end_i - x)
    """

    damping: float = 0.01  # how fast the step shrinks; 0 is FedAvg

    title: ClassVar[str] = "FedAvg with a shrinking step"
    citation: ClassVar[str] = "an example"
    home: ClassVar[Literal["client", "server"]] = "client"  # clients have no state here

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.damping >= 0, f"damping must be 0 or more, not {self.damping:g}")

    def report(self, c: Nothing, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Nothing, Model]:
        return c, Model(done.end - job.start)  # at a client: its state, and what it sends

    def merge(self, s: Model, total: Model, count: int, at: ServerView) -> Update:
        # At the server: the model becomes base + lr (step / over); with no report it stays.
        return Update(s, base=s.x, step=total.x if count else None, over=(count or 1) * (1 + self.damping * at.t))
