"""What the paper asserts (claims.toml), and whether what has been measured agrees."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Template

from fedswe_paper.cell import Dynamics
from fedswe_paper.exact import exact_findings
from fedswe_paper.margin import ENOUGH, STATUSES, Finding, Margin, Status, combined, pooled
from fedswe_paper.measurements import Measurements, accuracy, swing
from fedswe_paper.predicates import MODELS, PREDICATES, Place
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.recipes import RECIPES
from fedswe_paper.recipes.labels import remarks, seeds_named
from fedswe_paper.selection import DATASETS, Selection


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
            exact = exact_findings(self.id)
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
                beside = look(Measurements(measured.bounded.values()), dataset, dynamics) if lost else None
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

Judged = list[tuple[Claim, Verdict]]


def judge(selection: Selection, measured: Measurements) -> Judged:
    return [(claim, claim.verdict(selection, measured)) for claim in CLAIMS]


_FORMATS = {"points": (1, "f"), "rounds": (0, "f"), "%": (0, "f"), "log10": (2, "f"), "": (2, "g")}  # by unit
_MOST_DIGITS = 6


def _shown(margin: Margin) -> tuple[str, ...]:
    """Mean, with so many digits that it differs from the threshold; threshold; standard error; seeds; rounds."""
    fewest, kind = _FORMATS[margin.unit]
    threshold, error = f"{margin.threshold + 0.0:.{fewest}{kind}}", f"{margin.error + 0.0:.{fewest}{kind}}"
    if margin.exact or math.isnan(margin.error):
        error = "exact" if margin.exact else "not known"
    means = [f"{margin.mean + 0.0:+.{places}{kind}}" for places in range(fewest, _MOST_DIGITS + 1)]
    mean = next((mean for mean in means if float(mean) != margin.threshold), means[0])
    mean = "NaN" if math.isnan(margin.mean) else {"at least": "≥ ", "at most": "≤ "}.get(margin.beyond, "") + mean
    shorter = f" of {margin.of_paper}" if margin.rounds < margin.of_paper else ""  # than the paper has
    seeds, rounds = ("—", "—") if margin.exact else (str(len(margin.seeds)), f"{margin.rounds}{shorter}")
    return tuple(text.replace("-", "−") for text in (mean, threshold, error, seeds, rounds))


def report(selection: Selection, measured: Measurements) -> Page:
    """A page for readers; for programs claims.csv, a row per claim, and claims-margins.csv, a row per margin."""
    judged = judge(selection, measured)
    rows: list[tuple[str, ...]] = []
    claims, margins = [], []
    for claim, verdict in judged:
        cells = _cells(*verdict.deciding) if verdict.deciding else {}
        shown = _shown(verdict.deciding[1]) if verdict.deciding else ("—",) * 5
        rows.append((claim.id, verdict.status, verdict.count, *shown))
        claims.append({"id": claim.id, "status": verdict.status, "where": verdict.count, **cells})
        margins += [
            {"id": claim.id, "place_status": finding.status, "margin_status": margin.status}
            | _cells(finding.place, margin)
            for finding in verdict.findings
            for margin in finding.margins
        ]
    lines = (line for claim in CLAIMS for name in claim.recipes for line in RECIPES[name].lines(selection))
    page = (files(__package__) / "claims.md.jinja").read_text(encoding="utf-8")
    text = Template(page, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True).render(
        selection=selection, judged=judged, rows=rows, statuses=STATUSES, shown=_shown, beside=_beside, enough=ENOUGH,
        remarks=remarks(lines, measured), spreads=list(_pooled(selection, measured)),
    )  # fmt: skip
    columns = ("claim", "verdict", "holds in", "margin", "above", "s.e.", "seeds")
    overview = [(name, status, where.replace(" places measured", ""), *more) for name, status, where, *more, _ in rows]
    said = []
    if few := sum(" of " in rounds for *_, rounds in rows):
        said.append(f"shorter runs      {few} of these come from fewer rounds than the paper has; the page says which")
    if selection.scale.warning:
        said.append(f"no meaning        {selection.scale.warning}; use --scale small or full")
    return Page(
        text=text,
        sheets={"claims": pd.DataFrame(claims), "claims-margins": pd.DataFrame(margins)},
        overview=("claims of the paper", columns, overview),
        said="\n".join(said),
    )


def _cells(place: str, margin: Margin) -> dict[str, str]:
    return {
        "place": place,
        "margin": f"{margin.mean:.6g}",
        "threshold": f"{margin.threshold:.6g}",
        "standard_error": f"{margin.error:.6g}",
        "degrees_of_freedom": str(margin.freedom or ""),
        "seeds": " ".join(map(str, margin.seeds)) or "exact",
        "rounds": str(margin.rounds or ""),
        "rounds_of_paper": str(margin.of_paper or ""),
        "unit": margin.unit,
        "margin_of": margin.what,
    }


def _pooled(selection: Selection, measured: Measurements) -> Iterator[str]:
    """What the errors of margins with too few seeds are made of, by data set, kind of availability and model."""
    turns = "turns of groups"
    kinds = {"fig7": turns, "fig10": turns, "fig3": "one p for all clients", "main-table": "neither"}
    first = {
        f"{cell.dataset}, {kind}, {MODELS[cell.judged_by]}": cell
        for recipe, kind in kinds.items()
        for cell in RECIPES[recipe].lines(selection)
    }
    for kind, cell in first.items():
        of = {"test accuracy": accuracy(), "its swing": swing()}
        known = {name: found for name, statistic in of.items() if (found := pooled(measured, cell, statistic))}
        if known:
            shown = (f"{name} {spread.std:.2f} ({spread.freedom} degrees of freedom)" for name, spread in known.items())
            yield f"{kind}: {', '.join(shown)}"


def _beside(finding: Finding) -> str:
    """What runs that decide nothing say."""
    known = [margin for margin in finding.margins if not math.isnan(margin.mean)]
    lost, said = len(finding.margins) - len(known), "no margin"
    if known:
        least = min(known, key=lambda margin: margin.gap)
        mean, threshold, error, _, rounds = _shown(least)
        unknown = (", one seed: " if len(least.seeds) == 1 else ", ") + "error not known"
        runs = f"{seeds_named(least.seeds)}, {rounds} rounds{unknown if error == 'not known' else ''}"
        ahead = f"{sum(margin.gap > 0 for margin in known)} of {len(known)} margins as claimed ({runs})"
        said = f"{ahead}, the least: {least.what} ({mean}, must exceed {threshold})"
    left_out = f"{lost} left out, as a run ended in NaN here, too" if lost else ""
    return "; ".join(filter(None, [said, left_out, finding.note]))


VERDICTS = Recipe(
    "claims",
    "text",
    "which claims of the paper hold, from what has been measured",
    lambda selection: [],
    report,
)
