"""What a claim comes to: a status, and the margins of each place it was looked for in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedswe_paper.margin import Margin, Status


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


def at_least(needed: int, margins: Sequence[Margin | None], note: str = "") -> Finding | None:
    """So many of the margins must hold; None until all of them have been measured, unless one of them diverged."""
    known = tuple(margin for margin in margins if margin is not None)
    statuses: list[Status] = [margin.status for margin in known]
    missing = len(margins) - len(known)
    if not known or (missing and "diverged, undecided" not in statuses):
        return None
    status = combined(statuses + ["undecided"] * missing, needed)
    return Finding(status, known, note, one_is_enough=needed < len(margins))


def every(margins: Sequence[Margin | None], note: str = "") -> Finding | None:
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
    def count(self) -> str:
        """In how many places it was found to hold."""
        held, all_places = sum(f.status == "holds" for f in self.findings), len(self.findings) + len(self.missing)
        if self.findings and all(margin.exact for f in self.findings for margin in f.margins):  # no run was needed
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
