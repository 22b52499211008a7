"""Which clients are available in which rounds: availability models and the schedules they give."""

from fedswe.availability.dynamics import Always, InterleavedSine, Sine, Staircase, Stationary
from fedswe.availability.groups import Alternating, Cyclic
from fedswe.availability.intervals import Intervals
from fedswe.availability.markov import Markov
from fedswe.availability.mask import Mask
from fedswe.availability.model import Availability
from fedswe.availability.uniform_control import UniformControl

__all__ = [
    "Alternating",
    "Always",
    "Availability",
    "Cyclic",
    "InterleavedSine",
    "Intervals",
    "Markov",
    "Mask",
    "Sine",
    "Staircase",
    "Stationary",
    "UniformControl",
]
