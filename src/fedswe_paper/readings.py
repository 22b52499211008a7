"""Readings of single methods: what the paper leaves open about one of them, answered in another way than by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedswe.errors import require


@dataclass(frozen=True)
class Reading:
    of: tuple[str, ...]  # the algorithms
    label: str  # what tables put after the method's name
    settings: dict[str, Any]  # keys of the configuration; they come after the profile's
    why: str


READINGS = {
    "seats10": Reading(
        ("f3ast",),
        "ten seats",
        {"algorithm.budget": 10},
        "at most ten clients a round, as in the method's own code and in the authors' earlier one; the paper names no "
        "number, and the default is no limit",
    ),
    "from-mean-rate": Reading(
        ("f3ast",),
        "rates from 0.3",
        {"algorithm.initial_rate": 0.3},
        "r_i = 0.3 at first, no limit: under the sine 28 to 33 of the 100 clients are there on average; rates that "
        "start at 1, the default, are still at about 0.56 after 1000 rounds and slow the method down",
    ),
    "unclipped": Reading(
        ("fedswe",),
        "unclipped",
        {"algorithm.clip": 0.0},
        "the released code clips the averaged update, but it has k = 0 only; to clip the average over the active "
        "clients and the k copies in the same way is our extension",
    ),
    "active-progress": Reading(
        ("fedswe",),
        "progress over active",
        {"algorithm.progress_over": "active"},
        "the echoed progress averaged over the active clients alone, where Algorithm 1 averages it over them and the k "
        "copies: with k = 0 both are the released code",
    ),
    "eta-g2": Reading(
        ("fedswe",),
        "global rate 2",
        {"algorithm.lr": 2.0},
        "eta_g = 2 where the paper has 1: among k copies of the server's model the clients' progress enters with the "
        "weight |A| / (|A| + k), and a larger global rate makes up for it without longer local steps",
    ),
    "eta-g4": Reading(("fedswe",), "global rate 4", {"algorithm.lr": 4.0}, "eta_g = 4, for the same reason as 2"),
    **{
        f"eta-g{rate:g}": Reading(
            ("fedswe",),
            f"global rate {rate:g}",
            {"algorithm.lr": rate},
            f"eta_g = {rate:g}, which is in the paper's grid of global rates",
        )
        for rate in (1.5, 5.0, 10.0, 50.0)
    },
    "constant-rate": Reading(
        ("fedswe", "fedavg"),
        "constant rate",
        {"local.schedule": "constant"},
        "the local rate stays at eta_0, as in the experiments in turns of groups, where it decays in those of Table 2",
    ),
    "clipped": Reading(
        ("fedavg",),
        "clipped",
        {"algorithm.clip": 0.5},
        "FedAvg's average bounded as the released code bounds FedAWE's: it is what lets FedAWE take larger local rates",
    ),
    "every-round": Reading(
        ("gfedavg",),
        "amplified every round",
        {"algorithm.period": 1},
        "P = 1, a tenfold global rate, where the paper has P = 100: a tenfold stretch of a hundred rounds' progress "
        "throws the model off at every local rate tried",
    ),
}


def settings_of(reading: str) -> dict[str, Any]:
    """The keys a reading sets; "" is the default and sets none."""
    return READINGS[reading].settings if reading else {}


def check_reading(reading: str, algorithm: str) -> None:
    require(not reading or reading in READINGS, f"unknown reading {reading!r}: choose from {', '.join(READINGS)}")
    if reading:
        of = READINGS[reading].of
        require(algorithm in of, f"{reading} is a reading of {' and '.join(of)}, not of {algorithm}")
