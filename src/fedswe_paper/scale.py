"""How large a reproduction is: seconds, minutes, or the paper's own size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ScaleName = Literal["ci", "small", "full"]

_PERIODIC_ROUNDS = {"svhn": 10_000, "cifar10": 20_000}
PAPER_SEEDS = (3, 4, 6)  # the released code's examples


@dataclass(frozen=True)
class Scale:
    purpose: str
    stand_in: str  # the data set instead of the paper's; "" = the paper's own
    model: str  # of the stand-in
    clients: int
    steps: int
    batch_size: int
    rounds: int
    motivating_rounds: int  # of figure 3
    periodic_rounds: int  # 0 = the paper's, by data set
    period: int  # P of the periodic dynamics
    seeds: tuple[int, ...]
    ks: tuple[float, ...]  # of figures 6, 8, 9, 11, 12
    every: int  # rounds between evaluations; the paper samples Table 7 every 20
    tail: int  # final rounds that a score is averaged over
    tail_every: int
    periodic_tail: int
    target: float  # accuracy of figures 9 and 12
    warning: str = ""  # why the verdicts on claims mean nothing

    def rounds_of(self, dataset: str, periodic: bool, motivating: bool) -> int:
        if periodic:
            return self.periodic_rounds or _PERIODIC_ROUNDS.get(dataset, 10_000)
        return self.motivating_rounds if motivating else self.rounds

    def tail_of(self, periodic: bool) -> int:
        return self.periodic_tail if periodic else self.tail

    def tail_every_of(self, periodic: bool) -> int:
        """Every phase of a period counts: sampling once per period would alias the swing between the groups."""
        return self.period // 10 if periodic else self.tail_every

    def every_of(self, rounds: int, periodic: bool) -> int:
        """In turns of groups both ends of the swing, unless that would be too many."""
        if periodic:
            return self.period // 2 if rounds <= 40 * self.period else self.period
        return self.every


_KS = (0.0, 1.0, 10.0, 50.0, 100.0, 200.0, 500.0)

SCALES: dict[ScaleName, Scale] = {
    "ci": Scale(
        purpose="seconds: every code path, no meaning",
        stand_in="digits",
        model="softmax",
        clients=20,
        steps=2,
        batch_size=16,
        rounds=10,
        motivating_rounds=10,
        periodic_rounds=20,
        period=10,
        seeds=(3,),
        ks=(0.0, 1.0, 100.0),
        every=2,
        tail=4,
        tail_every=2,
        periodic_tail=10,
        target=0.4,
        warning="runs of 10 to 20 rounds are too short to judge a claim: only the exact verdicts have a meaning",
    ),
    "small": Scale(
        purpose="minutes on two cores: enough to see an effect",
        stand_in="fashion_mnist",
        model="softmax",
        clients=100,
        steps=5,
        batch_size=32,
        rounds=300,
        motivating_rounds=200,
        periodic_rounds=600,
        period=100,
        seeds=PAPER_SEEDS,
        ks=_KS,
        every=20,
        tail=50,
        tail_every=10,
        periodic_tail=100,
        target=0.6,
    ),
    "full": Scale(
        purpose="the paper's size, for a GPU",
        stand_in="",
        model="",
        clients=100,
        steps=10,
        batch_size=128,
        rounds=2000,
        motivating_rounds=1000,
        periodic_rounds=0,
        period=100,
        seeds=PAPER_SEEDS,
        ks=_KS,
        every=20,
        tail=50,
        tail_every=2,
        periodic_tail=500,
        target=0.4,
    ),
}
