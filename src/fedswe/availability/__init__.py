"""Which clients are available in which rounds: availability models and the schedules they give."""

from fedswe.availability.composition import JoinLeave, Outages, Sampled, UniformControl
from fedswe.availability.dynamics import (
    Adversarial,
    Alternating,
    Always,
    Cyclic,
    InterleavedSine,
    Sine,
    Staircase,
    Stationary,
)
from fedswe.availability.intervals import Intervals
from fedswe.availability.markov import DailyMarkov, Markov
from fedswe.availability.mask import Mask
from fedswe.availability.model import Availability

__all__ = [
    "Adversarial",
    "Alternating",
    "Always",
    "Availability",
    "Cyclic",
    "DailyMarkov",
    "InterleavedSine",
    "Intervals",
    "JoinLeave",
    "Markov",
    "Mask",
    "Outages",
    "Sampled",
    "Sine",
    "Staircase",
    "Stationary",
    "UniformControl",
]
