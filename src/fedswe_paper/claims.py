"""What the paper asserts (claims.toml), and whether what has been measured agrees."""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedswe.results.files import write_whole
from fedswe_paper.cell import Dynamics
from fedswe_paper.exact import EXACT
from fedswe_paper.margin import ENOUGH, STATUSES, Margin, accuracy, pooled, swing
from fedswe_paper.measurements import Measurements
from fedswe_paper.predicates import MODELS, PREDICATES, Place
from fedswe_paper.publish import folder_of
from fedswe_paper.recipes import RECIPES
from fedswe_paper.recipes.labels import remarks, seeds_named
from fedswe_paper.selection import DATASETS, Selection
from fedswe_paper.verdict import Finding, Verdict, combined


@dataclass(frozen=True)
class Claim:
    """A row of claims.toml."""

    id: str
    asserts: str
    where: str
    recipes: tuple[str, ...]  # that measure it
    note: str = ""
    says: str = ""  # the predicate that must hold in each place; none: decided exactly, without runs
    of: dict[str, Any] = field(default_factory=dict)  # what the predicate is told
    sets: tuple[str, ...] = DATASETS  # data sets it is looked for in; at scales with a stand-in, in that
    dynamics: tuple[Dynamics, ...] = ()  # with each of these; none: the data set is the place
    without: tuple[str, ...] = ()  # places where it is not asked
    somewhere: bool = False  # one place is enough
    model: str | None = None  # that all methods are judged by; None: each by the profile's
    one_model: bool = False  # its methods are judged by different models: there are variants with one for all

    @property
    def in_the_paper(self) -> bool:
        """Or a variant of ours: the same at another model."""
        return not self.where.startswith("not in the paper")

    def places(self, selection: Selection) -> list[tuple[str, str, Dynamics]]:
        """With their names; where other data sets than the claim's were asked for, those."""
        there = selection.datasets_of(self.sets)
        there = tuple(dataset for dataset in there if dataset in self.sets) or there
        found = [(f"{d}, {dynamics}", d, dynamics) for d in there for dynamics in self.dynamics]
        return [place for place in found or [(d, d, "sine") for d in there] if place[0] not in self.without]

    def verdict(self, selection: Selection, measured: Measurements) -> Verdict:
        """It must hold in all places that have been measured, or in one of them."""
        if not self.says:
            exact = tuple(EXACT[self.id]())
            return Verdict(combined([finding.status for finding in exact], len(exact)), exact)

        def look(runs: Measurements, dataset: str, dynamics: Dynamics) -> Finding | None:
            return PREDICATES[self.says](Place(selection, runs, dataset, dynamics, self.model), **self.of)

        found, missing = [], []
        for name, dataset, dynamics in self.places(selection):
            finding = look(measured, dataset, dynamics)
            if finding is None:
                missing.append(name)
            else:
                lost = finding.status == "diverged, undecided"
                beside = look(measured.all_bounded, dataset, dynamics) if lost else None
                found.append(replace(finding, place=name, bounded=beside))
        if not found:
            return Verdict("not yet measured", missing=tuple(missing))
        status = combined([finding.status for finding in found], 1 if self.somewhere else len(found))
        return Verdict(status, tuple(found), tuple(missing), self.somewhere)


def _claims() -> Iterator[Claim]:
    text = (files(__package__) / "claims.toml").read_text(encoding="utf-8")
    for entry in tomllib.loads(text)["claim"]:
        claim = Claim(**entry)
        yield claim
        for model, words in MODELS.items() if claim.one_model else ():
            same, where = f"The same with every method judged by its {words}.", "not in the paper: one model for all"
            claim_id = f"{claim.id}-{model.replace('_', '-')}"
            yield replace(claim, id=claim_id, asserts=same, where=where, note="", model=model, one_model=False)


CLAIMS = tuple(_claims())
RULE = (files(__package__) / "rule.md").read_text(encoding="utf-8")  # how a verdict is reached

Judged = list[tuple[Claim, Verdict]]


def judge(selection: Selection, measured: Measurements) -> Judged:
    return [(claim, claim.verdict(selection, measured)) for claim in CLAIMS]


def summary_rows(judged: Judged) -> list[tuple[str, ...]]:
    """Each claim with its verdict, where it holds, and the margin that decides it.

    Of that: value, threshold, standard error, seeds, rounds.
    """
    return [(claim.id, verdict.status, verdict.count, *_deciding(verdict)) for claim, verdict in judged]


def _deciding(verdict: Verdict) -> tuple[str, ...]:
    if verdict.deciding is None:
        return ("—",) * 5
    margin = verdict.deciding[1]
    return _mean(margin), _plain(margin.threshold, margin), _error(margin), _seeds(margin), _rounds(margin)


_FORMATS = {"points": (1, "f"), "rounds": (0, "f"), "%": (0, "f"), "log10": (2, "f"), "": (2, "g")}  # by unit
_MOST_DIGITS = 6


def _mean(margin: Margin) -> str:
    """With a sign, and so many digits that it differs from the threshold."""
    if math.isnan(margin.mean):
        return "NaN"
    fewest, kind = _FORMATS[margin.unit]
    texts = [f"{margin.mean + 0.0:+.{places}{kind}}" for places in range(fewest, _MOST_DIGITS + 1)]
    text = next((text for text in texts if float(text) != margin.threshold), texts[0])
    return {"at least": "≥ ", "at most": "≤ "}.get(margin.beyond, "") + text.replace("-", "−")


def _plain(value: float, margin: Margin) -> str:
    places, kind = _FORMATS[margin.unit]
    return f"{value + 0.0:.{places}{kind}}".replace("-", "−")


def _error(margin: Margin) -> str:
    if margin.exact:
        return "exact"
    return "not known" if math.isnan(margin.error) else _plain(margin.error, margin)


def _seeds(margin: Margin) -> str:
    return "—" if margin.exact else str(len(margin.seeds))


def _rounds(margin: Margin) -> str:
    """2000, or 5000 of 10000 where the paper has more."""
    if margin.exact:
        return "—"
    return f"{margin.rounds} of {margin.of_paper}" if margin.rounds < margin.of_paper else str(margin.rounds)


def publish_claims(selection: Selection, judged: Judged, measured: Measurements, out: Path) -> Path:
    """claims.md for readers; for programs claims.csv, a row per claim, and claims-margins.csv, a row per margin."""
    folder = folder_of(selection, out)
    _write_sheet(folder / "claims.csv", ["id", "status", "where", *_COLUMNS], _claim_rows(judged))
    _write_sheet(
        folder / "claims-margins.csv", ["id", "place_status", "margin_status", *_COLUMNS], _margin_rows(judged)
    )
    cells = (cell for claim in CLAIMS for name in claim.recipes for cell in RECIPES[name].lines(selection))
    page = _page(selection, judged, remarks(cells, measured), list(_pooled(selection, measured)))
    write_whole(folder / "claims.md", "\n".join(page) + "\n")
    return folder / "claims.md"


_COLUMNS = [
    "place", "margin", "threshold", "standard_error", "degrees_of_freedom", "seeds", "rounds", "rounds_of_paper",
    "unit", "margin_of",
]  # fmt: skip


def _write_sheet(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def _claim_rows(judged: Judged) -> Iterator[list[object]]:
    for claim, verdict in judged:
        start: list[object] = [claim.id, verdict.status, verdict.count]
        yield [*start, *(_cells(*verdict.deciding) if verdict.deciding else [""] * len(_COLUMNS))]


def _margin_rows(judged: Judged) -> Iterator[list[object]]:
    for claim, verdict in judged:
        for finding in verdict.findings:
            for margin in finding.margins:
                yield [claim.id, finding.status, margin.status, *_cells(finding.place, margin)]


def _cells(place: str, margin: Margin) -> list[object]:
    seeds = " ".join(map(str, margin.seeds)) or "exact"
    numbers = [f"{value:.6g}" for value in (margin.mean, margin.threshold, margin.error)]
    rounds = margin.rounds or "", margin.of_paper or ""
    return [place, *numbers, margin.freedom or "", seeds, *rounds, margin.unit, margin.what]


def _pooled(selection: Selection, measured: Measurements) -> Iterator[str]:
    """What the errors of margins with too few seeds are made of, by data set, kind of availability and model."""
    kinds = {"turns of groups": ("fig7", "fig10"), "one p for all clients": ("fig3",), "neither": ("main-table",)}
    first = {
        f"{cell.dataset}, {kind}, {MODELS[cell.judged_by]}": cell
        for kind, recipes in kinds.items()
        for recipe in recipes
        for cell in RECIPES[recipe].lines(selection)
    }
    for kind, cell in first.items():
        of = {"test accuracy": accuracy(), "its swing": swing()}
        known = {name: found for name, statistic in of.items() if (found := pooled(measured, cell, statistic))}
        if known:
            shown = (f"{name} {spread.std:.2f} ({spread.freedom} degrees of freedom)" for name, spread in known.items())
            yield f"- {kind}: {', '.join(shown)}"


def _page(selection: Selection, judged: Judged, noted: list[str], spreads: list[str]) -> Iterator[str]:
    yield "# Claims of the paper"
    yield ""
    yield f"Scale {selection.scale_name} ({selection.scale.purpose}), profile {selection.profile}."
    yield ""
    for kind, papers in (("The paper's claims", True), ("Variants of ours, at another model", False)):
        counted = Counter(verdict.status for claim, verdict in judged if claim.in_the_paper == papers)
        shown = "; ".join(f"{counted[status]} {status}" for status in STATUSES)
        yield f"- {kind} ({counted.total()}): {shown}."
    yield ""
    yield RULE.rstrip()
    yield ""
    yield "Margins are in points of test accuracy unless they say otherwise; behind the name of a method stands the"
    yield "model that it is judged by. All are in `claims-margins.csv`; below is the margin that"
    yield "decides each place, with the least to spare."
    yield from ("", "Pooled standard deviations over seeds, in points:", "", *spreads) if spreads else ()
    yield from ("", f"**No meaning**: {selection.scale.warning}.") if selection.scale.warning else ()
    yield from ("", "Runs that are not as in the paper:", "", *(f"- {note}" for note in noted)) if noted else ()
    yield ""
    yield "| claim | verdict | where it holds | margin | must exceed | standard error | seeds | rounds |"
    yield "|---|---|---|---:|---:|---:|---:|---|"
    for (claim, _), (claim_id, *cells) in zip(judged, summary_rows(judged), strict=True):
        ours = "" if claim.in_the_paper else " (ours)"
        yield f"| [{claim_id}](#{claim_id}){ours} | {' | '.join(cells)} |"
    for claim, verdict in judged:
        yield from ("", *_section(claim, verdict))


def _section(claim: Claim, verdict: Verdict) -> Iterator[str]:
    yield f"## {claim.id}"
    yield ""
    yield claim.asserts
    yield f"({'; '.join(filter(None, [claim.where, ', '.join(f'`{name}`' for name in claim.recipes)]))})"
    yield ""
    counted = Counter(margin.status for finding in verdict.findings for margin in finding.margins)
    margins = ", ".join(f"{counted[status]} {status}" for status in STATUSES if counted[status])
    total = f"; of {counted.total()} margins {margins}" if counted.total() > 1 else ""
    yield f"**{verdict.status}**, {verdict.count}{total}"
    if verdict.findings:
        yield ""
        yield "| place | verdict | margin | must exceed | standard error | seeds | rounds | margin of |"
        yield "|---|---|---:|---:|---:|---|---|---|"
    for finding in verdict.findings:
        yield _row(finding)
    notes = [f"{finding.place}: {finding.note}".removeprefix(": ") for finding in verdict.findings if finding.note]
    notes += [f"{f.place}, bounded gradients: {_beside(f.bounded)}" for f in verdict.findings if f.bounded]
    if verdict.missing:
        notes.append(f"not measured, or too short to tell: {'; '.join(verdict.missing)}")
    yield from ("", *(f"- {note}" for note in notes)) if notes else ()
    if claim.note:
        yield from ("", claim.note)


def _beside(finding: Finding) -> str:
    """What runs that decide nothing say."""
    known = [margin for margin in finding.margins if not math.isnan(margin.mean)]
    lost = len(finding.margins) - len(known)
    notes = [f"{lost} left out, as a run ended in NaN here, too"] if lost else []
    notes += [finding.note] if finding.note else []
    if not known:
        return "; ".join(["no margin", *notes])
    ahead = sum(margin.mean > margin.threshold for margin in known)
    least = min(known, key=lambda margin: margin.mean - margin.threshold)
    numbers = f"{_mean(least)}, must exceed {_plain(least.threshold, least)}"
    runs = [seeds_named(least.seeds), f"{_rounds(least)} rounds"]
    if math.isnan(least.error):
        runs.append("one seed: error not known" if len(least.seeds) == 1 else "error not known")
    said = f"{ahead} of {len(known)} margins as claimed ({', '.join(runs)}), the least: {least.what} ({numbers})"
    return "; ".join([said, *notes])


def _row(finding: Finding) -> str:
    margin = finding.deciding
    known = 0 < len(margin.seeds) < ENOUGH and not math.isnan(margin.error)
    source = " (error from other runs)" if known else ""
    seeds = ", ".join(map(str, margin.seeds)) or "—"
    unit = "" if margin.unit in ("points", "") or math.isnan(margin.mean) else f" {margin.unit}"
    of = f"{margin.what}; {len(finding.margins)} margins" if len(finding.margins) > 1 else margin.what
    numbers = (_mean(margin) + unit, _plain(margin.threshold, margin), _error(margin))
    cells = (finding.place or "—", finding.status, *numbers, seeds + source, _rounds(margin), of)
    return f"| {' | '.join(cells)} |"
