"""Who is there: availability models and the schedules they give."""

from fedswe.availability.dynamics import Always, InterleavedSine, Sine, Staircase, Stationary
from fedswe.availability.groups import Alternating, Cyclic
from fedswe.availability.markov import Markov
from fedswe.availability.mask import Mask
from fedswe.availability.model import Availability

AVAILABILITY: dict[str, type[Availability]] = {
    "always": Always,
    "stationary": Stationary,
    "staircase": Staircase,
    "sine": Sine,
    "interleaved_sine": InterleavedSine,
    "alternating": Alternating,
    "cyclic": Cyclic,
    "markov": Markov,
    "mask": Mask,
}

__all__ = [
    "AVAILABILITY",
    "Alternating",
    "Always",
    "Availability",
    "Cyclic",
    "InterleavedSine",
    "Markov",
    "Mask",
    "Sine",
    "Staircase",
    "Stationary",
]
