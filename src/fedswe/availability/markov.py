"""Clients that come and go: two-state chains, and chains with a day and stays of two lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedswe.availability.dynamics import Stationary
from fedswe.availability.model import Availability, Dependence, Part, Population
from fedswe.availability.schedule import Bools, Floats, Schedule, Sequential, uniform_draws
from fedswe.core import keys
from fedswe.core.value import Positive, Probability, Share
from fedswe.errors import require

HOURS = 24.0
Hour = Annotated[float, Field(ge=0, le=HOURS)]
_FARTHEST = 1e-9  # of mean availabilities from 0 and 1


@dataclass(frozen=True)
class Markov(Stationary):
    """Each client turns on with probability `on` and off with on (1/p_i - 1): it is available in a share p_i of rounds.

    Where the off-probability would exceed 1 both are scaled down. ``prob`` is the stationary p_i, not the probability
    given the state of the round before.
    """

    on: Share = 0.05  # probability that an unavailable client becomes available in the next round

    title: ClassVar[str] = "two-state chains with stationary probability p_i"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.stream == "keyed", 'the markov model has no legacy stream: use stream = "keyed"')

    def dependence(self) -> Dependence:
        return "rounds"

    def schedule(self, who: Population, seed: int) -> Schedule:
        return Chains(self.base(who, seed), seed, self.on)


class Chains(Sequential):
    """One chain per client, started in its stationary distribution."""

    def __init__(self, base: Floats, seed: int, on: float) -> None:
        super().__init__(len(base), lambda t: base)
        # on (1/p - 1) without dividing by p: where it exceeds 1 (p = 0 included) both are scaled down by it.
        off = on * (1.0 - base)
        scale = np.maximum(off, base)
        self._turn_on, self._turn_off = on * base / scale, off / scale
        self._base, self._seed = base, seed
        self._state: Bools

    def draw(self, t: int) -> Bools:
        on = self._base if t == 0 else np.where(self._state, 1.0 - self._turn_off, self._turn_on)
        self._state = uniform_draws(self._seed, t, self.m) < on
        return self._state.copy()


@dataclass(frozen=True)
class DailyMarkov(Availability):
    """A chain for each client, with a mean availability of its own, long and short stays, and a daily rhythm.

    The mean availability of client i is a_i ~ Beta(alpha, beta), or 0 with probability `never`. It is available in
    round t with probability a_i + B_i cos(2 pi (hour(t) - peak_hour) / 24), where B_i = min(amplitude a_i, 1 - a_i) and
    hour(t) is the time of day at which the round begins. Its sessions last session_hours (a_i / (1 - a_i))^exponent in
    the mean, its outages (1 - a_i) / a_i times as long. A share `short_sessions` of its sessions is short, with a mean
    of `short_session` times that of all; outages likewise.

    In rounds, the chain has four states: in a short or a long session, in a short or a long outage. A stay of mean
    length L ends in each round with probability 1/L or less: sessions end less often when more clients are available
    than in the mean, outages when fewer are, and by so much that the probabilities are exactly those above. L is at
    least one round. B_i is smaller where the client comes and goes too seldom to follow the day. ``prob`` does not know
    the state of the round before.
    """

    alpha: Positive = 1.0  # a_i ~ Beta(alpha, beta), whose mean is alpha / (alpha + beta)
    beta: Positive = 5.0  # the second parameter of Beta(alpha, beta)
    never: Part = 0.0  # share of clients that are never available
    session_hours: Positive = 4.0  # mean session, and mean outage, of a client that is available half of the time
    exponent: Probability = 0.35  # mean sessions grow with a_i like (a_i / (1 - a_i))^exponent; 0 = all alike
    short_sessions: Part = 0.0  # share of the sessions that are short
    short_session: Share = 0.2  # mean of the short sessions over that of all
    short_outages: Part = 0.0  # share of the outages that are short
    short_outage: Share = 0.2  # mean of the short outages over that of all
    amplitude: Probability = 0.3  # of the daily rhythm, relative to a_i; 0 = none
    peak_hour: Hour = 3.0  # hour of the day at which most clients are available
    start_hour: Hour = 0.0  # hour of the day at which round 0 begins
    round_seconds: Positive = 600.0  # length of a round in seconds

    title: ClassVar[str] = "four-state chains with Beta(alpha, beta) means, short and long stays, and a daily rhythm"

    def dependence(self) -> Dependence:
        return "rounds"

    def cycle(self) -> int | None:
        if self.amplitude == 0:
            return 1
        return int(self.rounds_per_day) if self.rounds_per_day.is_integer() else None

    @property
    def rounds_per_day(self) -> float:
        return HOURS * 3600 / self.round_seconds

    def schedule(self, who: Population, seed: int) -> Schedule:
        rng = keys.generator(seed, "mean availabilities")
        mean = rng.beta(self.alpha, self.beta, who.m).clip(_FARTHEST, 1 - _FARTHEST)
        there = keys.generator(seed, "never available").random(who.m) >= self.never
        return DailyChains(self, mean, there, seed)


class Stays:
    """Short and long stays of mean length `mean` in rounds: how they are shared, and how often each ends."""

    def __init__(self, mean: Floats, share: float, ratio: float) -> None:
        short = np.maximum(ratio * mean, 1.0)
        self.short = share  # of the stays that begin
        self.time = share * short / mean  # share of the time
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.array([self.time / share, (1 - self.time) / (1 - share)])
        self.spread = np.nanmax(np.where(np.isfinite(ratios), ratios, 1.0), axis=0)

    def ends(self, begin: Floats, end: Floats, part: Floats) -> tuple[Floats, Floats]:
        """The probabilities that a short and a long stay end, so that both keep their shares of the time.

        `begin` and `end` are the probabilities that a client begins or ends any stay in this round, `part` that it is
        in one.
        """
        grows = begin - end
        short = self.short * begin - self.time * grows
        long = (1 - self.short) * begin - (1 - self.time) * grows
        return _over(short, self.time * part), _over(long, (1 - self.time) * part)


def _over(flow: Floats, part: Floats) -> Floats:
    return np.clip(np.divide(flow, part, out=np.zeros_like(part), where=part > 0), 0.0, 1.0)


class DailyChains(Sequential):
    """One chain per client, started in its law of round 0.

    States: 0 in a short outage, 1 in a long one, 2 in a short session, 3 in a long one.
    """

    def __init__(self, model: DailyMarkov, mean: Floats, there: Bools, seed: int) -> None:
        super().__init__(len(mean), self._prob)
        self._mean, self._there, self._seed = mean, there, seed
        odds = mean / (1 - mean)
        # Neither sessions nor outages are shorter than a round.
        session = model.session_hours * 3600 / model.round_seconds * odds**model.exponent
        session = np.maximum(session, np.maximum(1.0, odds))
        self._sessions = Stays(session, model.short_sessions, model.short_session)
        self._outages = Stays(session / odds, model.short_outages, model.short_outage)
        self._begin = mean / session  # sessions per round
        self._angle = 2 * math.pi / model.rounds_per_day
        self._first = 2 * math.pi * (model.start_hour - model.peak_hour) / HOURS
        # In a round the probability changes by at most `step` B, and the chain must be able to follow.
        step = 2 * abs(math.sin(self._angle / 2)) * (self._sessions.spread + self._outages.spread - 1)
        followed = self._begin / (self._begin / np.minimum(mean, 1 - mean) + step)
        self._swing = np.minimum(np.minimum(model.amplitude * mean, 1 - mean), followed)
        self._state: npt.NDArray[np.int8]

    def _law(self, t: int) -> Floats:
        return np.asarray(self._mean + self._swing * math.cos(self._first + self._angle * t))

    def _prob(self, t: int) -> Floats:
        return np.where(self._there, self._law(t), 0.0)

    def draw(self, t: int) -> Bools:
        draws = uniform_draws(self._seed, t, self.m)
        if t == 0:
            law = self._law(0)
            on = draws < law
            rest = np.where(on, draws / law, (draws - law) / (1 - law))  # uniform again
            short = rest < np.where(on, self._sessions.time, self._outages.time)
            self._state = (2 * on + ~short).astype(np.int8)
        else:
            ends = self._ends(t - 1)[self._state, np.arange(self.m)]
            on = self._state >= 2
            short = np.where(on, self._outages.short, self._sessions.short)  # of the stays that begin now
            turned = np.where(on, 0, 2) + (draws >= ends * short)
            self._state = np.where(draws < ends, turned, self._state).astype(np.int8)
        return np.asarray((self._state >= 2) & self._there)

    def _ends(self, t: int) -> Floats:
        """The probability that a client leaves each state after round t, [4, m]."""
        law = self._law(t)
        grows = self._law(t + 1) - law
        begin = self._begin * np.minimum(law / self._mean, (1 - law) / (1 - self._mean))
        # Less than this, so that no stay ends with a higher probability than 1 / its mean length.
        begin = begin - np.where(grows > 0, (self._outages.spread - 1) * grows, -self._sessions.spread * grows)
        end = begin - grows
        return np.stack([*self._outages.ends(end, begin, 1 - law), *self._sessions.ends(begin, end, law)])
