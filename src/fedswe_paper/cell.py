"""A cell of the paper's grids: the coordinates of one run in its experiments, and the experiment they stand for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal

from fedswe.core.local import Precision
from fedswe.experiment.configuration import experiment
from fedswe.experiment.experiment import Experiment
from fedswe.grid.store import Cell
from fedswe_paper.profile import Profile, judged_by, settings
from fedswe_paper.readings import check_reading, settings_of
from fedswe_paper.scale import SCALES, ScaleName

Dynamics = Literal["stationary", "staircase", "sine", "periodic-static", "periodic-staircase"]

# eta_0 of Table 6 (all data sets; eta_g = 1). FedVARP's is in the conference paper only; gFedAvg's is in neither, and
# its authors divide the rate by the amplification.
RATES = {
    "fedswe": 0.1,
    "fedavg": 0.05,
    "fedavg_all": 0.05,
    "gfedavg": 0.005,
    "fedau": 0.05,
    "f3ast": 0.05,
    "fedavg_known": 0.1,
    "mifa": 0.05,
    "fedvarp": 0.05,
}


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
        default = PaperCell(self.scale, self.profile, self.dataset, self.dynamics, self.algorithm, self.seed)
        for key in ("rate", "rounds", "alpha", "gamma", "p", "hold_out"):
            if (value := getattr(self, key)) != getattr(default, key):
                parts.append(f"{key.replace('_', '')}{value:g}")
        return "-".join([*parts, f"seed{self.seed}"])

    @property
    def line(self) -> PaperCell:
        """The cell without its seed: cells of one line are averaged."""
        return replace(self, seed=0)

    @property
    def judged_by(self) -> str:
        return judged_by(self.profile, self.algorithm)

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
        scale = SCALES[self.scale]
        rounds = self.rounds or scale.rounds_of(self.dataset, self.periodic, motivating=self.p > 0)
        images = self.dataset in ("svhn", "cifar10", "cinic10")
        chosen = settings(self.profile, self.algorithm, images)
        table: dict[str, Any] = {
            "rounds": rounds,
            "seed": self.seed,
            "algorithm": {"name": self.algorithm},
            "availability": self._availability(scale.period),
            "task": {
                "name": self.dataset,
                "clients": scale.clients,
                "alpha": self.alpha,
                "partition": "two_groups" if self.periodic else "dirichlet",
                "hold_out": self.hold_out,
            },
            "local": {
                "steps": scale.steps,
                "batch_size": scale.batch_size,
                "lr": self.rate or RATES[self.algorithm],
                "schedule": "constant" if self.periodic else "inverse_sqrt",
            },
            "evaluate": {
                "every": scale.every_of(rounds, self.periodic),
                "model": self._models(),
                "tail": scale.tail_of(self.periodic),
                "tail_every": scale.tail_every_of(self.periodic),
            },
            "record": {"checkpoint": 0, "columns": ["consensus"] if self.periodic else []},
        }
        if not images:
            table["task"]["model"] = scale.model
        if self.algorithm == "fedswe":
            table["algorithm"]["k"] = self.k
        if self.algorithm == "gfedavg":
            table["algorithm"]["period"] = scale.period
        if self.algorithm == "f3ast":
            table["algorithm"]["budget"] = 0  # no limit: the paper names no number of seats
        for key, value in (chosen | settings_of(self.reading)).items():
            section, _, name = key.partition(".")
            if name:
                table[section][name] = value
        return table

    def _models(self) -> list[str]:
        """The paper's two, FedSWE's analysed mean, and an average over rounds where rates are tuned for each."""
        models = ["server", "client_mean"]
        if self.algorithm == "fedswe" and self.k > 0:
            models.append("augmented_mean")
        if self.hold_out > 0:
            models.append("ema")
        return models

    def _availability(self, period: int) -> dict[str, Any]:
        if self.periodic:
            inside = self.dynamics.removeprefix("periodic-")
            return {"name": "alternating", "inside": inside, "period": period, "stair_period": period // 2}
        table: dict[str, Any] = {"name": self.dynamics}
        if self.dynamics == "sine":
            table["gamma"] = self.gamma
        if self.p:
            table["p"] = self.p
        return table


@cache
def _experiment(cell: PaperCell) -> Experiment:
    return experiment(cell._table())
