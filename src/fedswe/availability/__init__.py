"""Which clients are available in which rounds: availability models and the schedules they give."""

from fedswe.availability.composition import JoinLeave as JoinLeave
from fedswe.availability.composition import Outages as Outages
from fedswe.availability.composition import Sampled as Sampled
from fedswe.availability.composition import UniformControl as UniformControl
from fedswe.availability.dynamics import Adversarial as Adversarial
from fedswe.availability.dynamics import Alternating as Alternating
from fedswe.availability.dynamics import Always as Always
from fedswe.availability.dynamics import Cyclic as Cyclic
from fedswe.availability.dynamics import InterleavedSine as InterleavedSine
from fedswe.availability.dynamics import Sine as Sine
from fedswe.availability.dynamics import Staircase as Staircase
from fedswe.availability.dynamics import Stationary as Stationary
from fedswe.availability.intervals import Intervals as Intervals
from fedswe.availability.markov import DailyMarkov as DailyMarkov
from fedswe.availability.markov import Markov as Markov
from fedswe.availability.mask import Mask as Mask
from fedswe.availability.model import Availability as Availability
