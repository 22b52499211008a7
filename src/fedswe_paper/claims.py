"""What the paper asserts (claims.toml), and whether what has been measured agrees."""

from __future__ import annotations

import csv
import io
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from fedswe.results.files import write_whole
from fedswe_paper.decisions import DECISIONS
from fedswe_paper.decisions.verdict import STATUSES, Verdict
from fedswe_paper.measurements import Measurements
from fedswe_paper.publish import folder_of
from fedswe_paper.recipes import RECIPES
from fedswe_paper.recipes.labels import remarks
from fedswe_paper.selection import Selection


@dataclass(frozen=True)
class Claim:
    id: str
    asserts: str
    where: str
    recipes: tuple[str, ...]  # that measure it
    note: str = ""
    expected: bool = False  # safe to expect: a measurement that says otherwise should be looked into

    def broken(self, selection: Selection, verdict: Verdict) -> bool:
        """What is safe to expect is so at the paper's own size, in the profile that reproduces its table."""
        meant = selection.scale_name == "full" and selection.profile == "released"
        return self.expected and meant and verdict.status == "does not hold"


def _claims() -> Iterator[Claim]:
    text = (files(__package__) / "claims.toml").read_text(encoding="utf-8")
    for entry in tomllib.loads(text)["claim"]:
        yield Claim(**{**entry, "recipes": tuple(entry["recipes"])})


CLAIMS = tuple(_claims())

Judged = list[tuple[Claim, Verdict]]


def judge(selection: Selection, measured: Measurements) -> Judged:
    return [(claim, DECISIONS[claim.id](selection, measured)) for claim in CLAIMS]


def publish_claims(selection: Selection, judged: Judged, measured: Measurements, out: Path) -> Path:
    """claims.md for readers: each claim, the verdict, and the numbers behind it; claims.csv for programs."""
    folder = folder_of(selection, out)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "status", "evidence"])
    writer.writerows([claim.id, verdict.status, verdict.evidence] for claim, verdict in judged)
    write_whole(folder / "claims.csv", text.getvalue())
    cells = (cell for claim in CLAIMS for name in claim.recipes for cell in RECIPES[name].lines(selection))
    write_whole(folder / "claims.md", "\n".join(_page(selection, judged, remarks(cells, measured))) + "\n")
    return folder / "claims.md"


def _page(selection: Selection, judged: Judged, noted: list[str]) -> Iterator[str]:
    counted = Counter(verdict.status for _, verdict in judged)
    yield "# Claims of the paper"
    yield ""
    yield f"Scale {selection.scale_name} ({selection.scale.purpose}), profile {selection.profile}:"
    yield ", ".join(f"{counted[status]} {status}" for status in STATUSES) + "."
    yield "Differences are in points of test accuracy unless they say otherwise, paired by seed, mean ± std over seeds;"
    yield "✗ marks a place where the claim fails. A verdict is of the means: read it with their spread."
    yield from ("", f"**No meaning**: {selection.scale.warning}.") if selection.scale.warning else ()
    yield from ("", *(f"- {note}" for note in noted)) if noted else ()
    yield ""
    yield "| claim | verdict | where it holds |"
    yield "|---|---|---|"
    for claim, verdict in judged:
        yield f"| [{claim.id}](#{claim.id}) | {verdict.status} | {verdict.count} |"
    for claim, verdict in judged:
        yield from ("", *_section(claim, verdict))


def _section(claim: Claim, verdict: Verdict) -> Iterator[str]:
    yield f"## {claim.id}"
    yield ""
    yield claim.asserts
    yield f"({claim.where}; {', '.join(f'`{name}`' for name in claim.recipes)})"
    yield ""
    yield f"**{verdict.status}**, {verdict.count}"
    yield ""
    for finding in verdict.findings:
        place = f"{finding.place}: " if finding.place else ""
        yield f"- {'' if finding.holds else '✗ '}{place}{finding.numbers}"
    if verdict.missing:
        yield f"- not measured, or too short to tell: {'; '.join(verdict.missing)}"
    if claim.note:
        yield from ("", claim.note)
