"""Which clients are available in which rounds: availability models and the schedules they give."""

from fedswe.availability.adversarial import Adversarial, Regularised
from fedswe.availability.daily_markov import DailyMarkov
from fedswe.availability.dynamics import Always, InterleavedSine, Sine, Staircase, Stationary
from fedswe.availability.groups import Alternating, Cyclic
from fedswe.availability.intervals import Intervals
from fedswe.availability.join_leave import JoinLeave
from fedswe.availability.markov import Markov
from fedswe.availability.mask import Mask
from fedswe.availability.model import Availability
from fedswe.availability.of_data import DataSize, LabelCount, LabelTurns, LogNormal, LowestLabel
from fedswe.availability.outages import Outages
from fedswe.availability.sampled import NeverEmpty, Sampled
from fedswe.availability.turns import Incremental, Periodic, RoundRobin
from fedswe.availability.uniform_control import UniformControl

__all__ = [
    "Adversarial",
    "Alternating",
    "Always",
    "Availability",
    "Cyclic",
    "DailyMarkov",
    "DataSize",
    "Incremental",
    "InterleavedSine",
    "Intervals",
    "JoinLeave",
    "LabelCount",
    "LabelTurns",
    "LogNormal",
    "LowestLabel",
    "Markov",
    "Mask",
    "NeverEmpty",
    "Outages",
    "Periodic",
    "Regularised",
    "RoundRobin",
    "Sampled",
    "Sine",
    "Staircase",
    "Stationary",
    "UniformControl",
]
