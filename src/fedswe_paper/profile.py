"""Two readings of the paper's experiments: its text, and the code its authors released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Profile = Literal["paper", "released"]
PROFILES: tuple[Profile, ...] = ("paper", "released")


@dataclass(frozen=True)
class Deviation:
    """One thing the two readings disagree about, as keys of the configuration."""

    what: str
    paper: dict[str, Any]
    released: dict[str, Any]
    why: str
    of: tuple[str, ...] = ()  # the algorithms it concerns; empty: all
    images: bool = False  # concerns only the paper's networks on images


DEVIATIONS = (
    Deviation(
        "what is clipped",
        {"local.clip": 0.5},
        {"local.clip": 0.0},
        'paper: "gradient clipping with a max norm of 0.5 to all data set trainings"; the code clips no gradient',
    ),
    Deviation(
        "FedSWE's update",
        {"algorithm.clip": 0.0},
        {"algorithm.clip": 0.5},
        "the code clips the averaged echoed update of FedAWE, once per round; its extension to k > 0 is ours",
        of=("fedswe",),
    ),
    Deviation(
        "FedSWE is judged by",
        {"judged by": "server"},
        {"judged by": "client_mean"},
        "the code evaluates the mean of the m local models; the paper does not say",
        of=("fedswe",),
    ),
    Deviation(
        "random crops and flips",
        {"task.augment": "image"},
        {"task.augment": "batch"},
        "the code transforms the batch as one tensor: all its images share one offset and one coin",
        images=True,
    ),
    Deviation(
        "border of a crop",
        {"task.border": "black"},
        {"task.border": "mean"},
        "the code pads after normalising: the border has the mean colour instead of black",
        images=True,
    ),
    Deviation(
        "initial last layer",
        {"task.last_layer": "kaiming"},
        {"task.last_layer": "default"},
        "the code leaves the last layer at PyTorch's default",
        images=True,
    ),
    Deviation(
        "label proportions behind p_i",
        {"availability.proportions": "drawn"},
        {"availability.proportions": "realised"},
        "the paper takes the Dirichlet draw nu_i, the code what each client really got",
    ),
    Deviation(
        "random stream of availability",
        {"availability.stream": "keyed"},
        {"availability.stream": "legacy"},
        "legacy repeats the code's partition, p_i and random draws bit for bit for a seed",
    ),
)


def settings(profile: Profile, algorithm: str, images: bool) -> dict[str, Any]:
    """The keys a profile sets for one algorithm."""
    chosen: dict[str, Any] = {}
    for deviation in DEVIATIONS:
        if (not deviation.of or algorithm in deviation.of) and (images or not deviation.images):
            chosen |= getattr(deviation, profile)
    return chosen


def judged_by(profile: Profile, algorithm: str) -> str:
    """The model whose accuracy a profile reports."""
    return str(settings(profile, algorithm, images=False).get("judged by", "server"))
