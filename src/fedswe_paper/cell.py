"""A cell of the paper's grids: the coordinates of one run in its experiments, and the experiment they stand for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal

from fedswe.core.local import Precision
from fedswe.experiment.configuration import experiment
from fedswe.experiment.experiment import Experiment
from fedswe.grid.store import Cell
from fedswe_paper.profile import RATES, Profile, check_reading, settings
from fedswe_paper.scale import SCALES, ScaleName

Dynamics = Literal["stationary", "staircase", "sine", "periodic-static", "periodic-staircase"]

BOUND = 10.0  # on the norm of every stochastic gradient, where runs are repeated with one
BOUNDED = "guarded"  # end of the folder of these runs


@dataclass(frozen=True)
class PaperCell:
    """One run. Two recipes that need the same run name the same cell, so it is run once."""

    scale: ScaleName
    profile: Profile
    dataset: str
    dynamics: Dynamics
    algorithm: str
    seed: int
    k: float = 0.0  # FedSWE's
    rate: float = 0.0  # eta_0; 0 = the paper's
    rounds: int = 0  # 0 = the paper's, at this scale
    alpha: float = 0.1
    gamma: float = 0.3  # of the sine
    p: float = 0.0  # one probability for all clients; 0 = by labels
    hold_out: float = 0.0  # fraction of the training data kept for choosing rates
    reading: str = ""  # of what the paper leaves open about the algorithm; "" = the default

    def __post_init__(self) -> None:
        check_reading(self.reading, self.algorithm)

    @property
    def periodic(self) -> bool:
        return self.dynamics.startswith("periodic")

    @property
    def name(self) -> str:
        """A file name; coordinates with default values are left out."""
        parts = [self.dataset, self.dynamics, self.algorithm]
        if self.algorithm == "fedswe":
            parts.append(f"k{self.k:g}")
        if self.reading:
            parts.append(self.reading)
        for key in ("rate", "rounds", "alpha", "gamma", "p", "hold_out"):
            if (value := getattr(self, key)) != getattr(PaperCell, key):  # the default
                parts.append(f"{key.replace('_', '')}{value:g}")
        return "-".join([*parts, f"seed{self.seed}"])

    @property
    def line(self) -> PaperCell:
        """The cell without its seed and length: cells of one line are averaged."""
        return replace(self, seed=0, rounds=0)

    @property
    def full_rounds(self) -> int:
        """The paper's rounds, at this scale."""
        return replace(self, rounds=0).experiment().rounds

    @property
    def judged_by(self) -> str:
        """The model whose accuracy the profile reports."""
        return str(settings(self.profile, self.algorithm, images=False).get("judged by", "server"))

    def experiment(self) -> Experiment:
        """Everything the run depends on."""
        return _experiment(self)

    def grid_cell(self, device: str = "cpu", precision: Precision = "fp32", bounded: bool = False) -> Cell:
        """The cell as the grid runs it; results do not depend on the device, and on the precision only by rounding.

        Bounded: repeated with a bound on every stochastic gradient, which the paper does not have, and kept apart.
        """
        value = self.experiment()
        value = replace(value, device=device, local=replace(value.local, precision=precision))
        if not bounded:
            return Cell(f"{self.scale}-{self.profile}/{self.name}", value, asdict(self))
        value = replace(value, local=replace(value.local, clip=BOUND))
        return Cell(f"{self.scale}-{self.profile}-{BOUNDED}/{self.name}", value, {**asdict(self), "guard": BOUND})

    def _table(self) -> dict[str, Any]:
        scale, periodic = SCALES[self.scale], self.periodic
        rounds = self.rounds or (scale.motivating_rounds if self.p else scale.rounds)
        every, tail, tail_every = scale.every, scale.tail, scale.tail_every
        availability: dict[str, Any] = {"name": self.dynamics}
        availability |= {"gamma": self.gamma} if self.dynamics == "sine" else {}
        availability |= {"p": self.p} if self.p else {}
        if periodic:
            inside = self.dynamics.removeprefix("periodic-")
            availability = {"name": "alternating", "inside": inside, "period": scale.period}
            availability["stair_period"] = scale.period // 2
            rounds = self.rounds or scale.periodic_rounds or (20_000 if self.dataset == "cifar10" else 10_000)
            # Both ends of the swing, unless that would be too many. At the end every phase of a period counts: sampling
            # once per period would alias the swing between the groups.
            every = scale.period // 2 if rounds <= 40 * scale.period else scale.period
            tail, tail_every = scale.periodic_tail, scale.period // 10
        images = self.dataset in ("svhn", "cifar10", "cinic10")
        # The paper's two, FedSWE's analysed mean, and an average over rounds where rates are tuned for each.
        models = ["server", "client_mean"]
        models += ["augmented_mean"] if self.algorithm == "fedswe" and self.k > 0 else []
        models += ["ema"] if self.hold_out > 0 else []
        own: dict[str, dict[str, Any]] = {
            "fedswe": {"k": self.k},
            "gfedavg": {"period": scale.period},
            "f3ast": {"budget": 0},  # no limit: the paper names no number of seats
        }
        table: dict[str, Any] = {
            "rounds": rounds,
            "seed": self.seed,
            "algorithm": {"name": self.algorithm, **own.get(self.algorithm, {})},
            "availability": availability,
            "task": {
                "name": self.dataset,
                "clients": scale.clients,
                "alpha": self.alpha,
                "partition": "two_groups" if periodic else "dirichlet",
                "hold_out": self.hold_out,
                **({} if images else {"model": scale.model}),
            },
            "local": {
                "steps": scale.steps,
                "batch_size": scale.batch_size,
                "lr": self.rate or RATES[self.algorithm],
                "schedule": "constant" if periodic else "inverse_sqrt",
            },
            "evaluate": {"every": every, "model": models, "tail": tail, "tail_every": tail_every},
            "record": {"checkpoint": 0, "columns": ["consensus"] if periodic else []},
        }
        table["evaluate"]["ema_correct_bias"] = "ema" not in models  # as in the results that are stored
        for key, value in settings(self.profile, self.algorithm, images, self.reading).items():
            section, _, name = key.partition(".")
            if name:
                table[section][name] = value
        return table


@cache
def _experiment(cell: PaperCell) -> Experiment:
    return experiment(cell._table())
