"""What a decision is: a verdict, and what each place it looked at says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from fedswe_paper.measurements import Measurements
from fedswe_paper.selection import Selection

Status = Literal["holds", "does not hold", "not yet measured"]
STATUSES: tuple[Status, ...] = ("holds", "does not hold", "not yet measured")


@dataclass(frozen=True)
class Finding:
    """What one place says."""

    holds: bool
    numbers: str
    place: str = ""


@dataclass(frozen=True)
class Verdict:
    status: Status
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()  # the places not measured yet

    @property
    def count(self) -> str:
        """In how many places it was found to hold."""
        if not self.missing and all(not finding.place for finding in self.findings):
            return "exact"
        held, all_places = sum(finding.holds for finding in self.findings), len(self.findings) + len(self.missing)
        rest = f" measured ({all_places} in all)" if self.missing else ""
        return f"{held} of {len(self.findings)} places{rest}"

    @property
    def evidence(self) -> str:
        """All of it in one line."""
        lines = (f"{'' if f.holds else '✗ '}{f.place}{': ' if f.place else ''}{f.numbers}" for f in self.findings)
        return "; ".join([self.count, *lines])


P = TypeVar("P", bound=str | tuple[str, ...])  # a data set, or a data set and dynamics
Decide = Callable[[Selection, Measurements], Verdict]
Look = Callable[[Selection, Measurements, P], Finding | None]  # None: not measured there, or too short to tell
Enough = Callable[[Sequence[Finding], bool], bool]  # of the findings, and whether every place has one


def everywhere(findings: Sequence[Finding], complete: bool) -> bool:
    return all(finding.holds for finding in findings)


def somewhere(findings: Sequence[Finding], complete: bool) -> bool:
    """For what the paper says happens occasionally."""
    return any(finding.holds for finding in findings)


def over(places: Callable[[Selection], list[P]], look: Look[P], enough: Enough = everywhere) -> Decide:
    """Look at every place; the claim is decided by those that have been measured."""

    def decide(selection: Selection, measured: Measurements) -> Verdict:
        found, missing = [], []
        for place in places(selection):
            name = place if isinstance(place, str) else ", ".join(place)
            finding = look(selection, measured, place)
            if finding is None:
                missing.append(name)
            else:
                found.append(replace(finding, place=name))
        if not found:
            return Verdict("not yet measured", missing=tuple(missing))
        status: Status = "holds" if enough(found, not missing) else "does not hold"
        return Verdict(status, tuple(found), tuple(missing))

    return decide


def exactly(look: Callable[[], list[Finding]]) -> Decide:
    """A claim that needs no runs: decided at every scale."""

    def decide(selection: Selection, measured: Measurements) -> Verdict:
        found = tuple(look())
        return Verdict("holds" if everywhere(found, True) else "does not hold", found)

    return decide
