"""What a decision is: a status, and the margins of each place it looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fedswe_paper.decisions.margin import Margin, Status
from fedswe_paper.measurements import Measurements
from fedswe_paper.selection import Selection


def combined(statuses: Sequence[Status], needed: int) -> Status:
    """Of what holds if at least so many of its parts hold."""
    if statuses.count("holds") >= needed:
        return "holds"
    if statuses.count("does not hold") > len(statuses) - needed:
        return "does not hold"
    return "diverged, undecided" if "diverged, undecided" in statuses else "undecided"


@dataclass(frozen=True)
class Finding:
    """What one place says."""

    status: Status
    margins: tuple[Margin, ...]
    note: str = ""  # other numbers of the place
    place: str = ""
    one_is_enough: bool = False  # of the margins
    bounded: Finding | None = None  # of runs with bounded gradients, where these diverged: no part of the verdict

    @property
    def deciding(self) -> Margin:
        """Of the margins that made the status the one with the least to spare; where one is enough, with the most."""
        made = [margin for margin in self.margins if margin.status == self.status] or self.margins
        return (max if self.one_is_enough else min)(made, key=lambda margin: margin.excess)


Margins = Sequence[Margin | None]


def at_least(needed: int, margins: Margins, note: str = "") -> Finding | None:
    """So many of the margins must hold; None until all of them have been measured, unless one of them diverged."""
    known = tuple(margin for margin in margins if margin is not None)
    statuses: list[Status] = [margin.status for margin in known]
    missing = len(margins) - len(known)
    if not known or (missing and "diverged, undecided" not in statuses):
        return None
    status = combined(statuses + ["undecided"] * missing, needed)
    return Finding(status, known, note, one_is_enough=needed < len(margins))


def every(margins: Margins, note: str = "") -> Finding | None:
    return at_least(len(margins), margins, note)


def both(one: Finding | None, other: Finding | None) -> Finding | None:
    if one is None or other is None:
        there = one or other
        return there if there and there.status == "diverged, undecided" else None
    notes = "; ".join(filter(None, [one.note, other.note]))
    return Finding(combined([one.status, other.status], 2), one.margins + other.margins, notes)


@dataclass(frozen=True)
class Verdict:
    status: Status
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()  # the places not measured yet
    somewhere: bool = False  # one place is enough

    @property
    def exact(self) -> bool:
        """Whether no run was needed."""
        return bool(self.findings) and all(margin.exact for f in self.findings for margin in f.margins)

    @property
    def count(self) -> str:
        """In how many places it was found to hold."""
        held, all_places = sum(f.status == "holds" for f in self.findings), len(self.findings) + len(self.missing)
        if self.exact:
            return "exact" if held == all_places else f"exact, {held} of {all_places}"
        rest = f" measured ({all_places} in all)" if self.missing else ""
        return f"{held} of {len(self.findings)} places{rest}"

    @property
    def deciding(self) -> tuple[str, Margin] | None:
        """The place and its margin: of those that made the status the one with the least to spare, as in a place."""
        made = [finding for finding in self.findings if finding.status == self.status] or self.findings
        if not made:
            return None
        finding = (max if self.somewhere else min)(made, key=lambda one: one.deciding.excess)
        return finding.place, finding.deciding


P = TypeVar("P", bound=str | tuple[str, ...])  # a data set, or a data set and dynamics
Decide = Callable[[Selection, Measurements], Verdict]
Look = Callable[[Selection, Measurements, P], Finding | None]  # None: not measured there, or too short to tell


def over(places: Callable[[Selection], list[P]], look: Look[P], somewhere: bool = False) -> Decide:
    """Look at every place; the claim must hold in all that have been measured, or in one of them."""

    def decide(selection: Selection, measured: Measurements) -> Verdict:
        found, missing = [], []
        bounded = measured.all_bounded
        for place in places(selection):
            name = place if isinstance(place, str) else ", ".join(place)
            finding = look(selection, measured, place)
            if finding is None:
                missing.append(name)
            else:
                beside = look(selection, bounded, place) if finding.status == "diverged, undecided" else None
                found.append(replace(finding, place=name, bounded=beside))
        if not found:
            return Verdict("not yet measured", missing=tuple(missing))
        status = combined([finding.status for finding in found], 1 if somewhere else len(found))
        return Verdict(status, tuple(found), tuple(missing), somewhere)

    return decide


ONE_MODEL = {"client-mean": "client_mean", "server": "server"}  # ends of the ids of our variants, and the models
MODELS = {"client_mean": "client mean", "server": "server model"}  # in words


def at_each_model(
    claim: str,
    places: Callable[[Selection], list[P]],
    look: Callable[[str | None], Look[P]],
    somewhere: bool = False,
) -> dict[str, Decide]:
    """A claim on methods that the profile judges by different models, and the variants with one model for all."""
    variants = {f"{claim}-{end}": over(places, look(model), somewhere) for end, model in ONE_MODEL.items()}
    return {claim: over(places, look(None), somewhere), **variants}


def exactly(look: Callable[[], list[Finding]]) -> Decide:
    """A claim that needs no runs: decided at every scale."""

    def decide(selection: Selection, measured: Measurements) -> Verdict:
        found = tuple(look())
        return Verdict(combined([finding.status for finding in found], len(found)), found)

    return decide
