"""What a round is in time: one step of a count, or an exchange that lasts until enough reports have arrived."""

from fedswe.clock.model import Clock, Rounds
from fedswe.clock.seconds import Seconds

__all__ = ["Clock", "Rounds", "Seconds"]
