"""What the paper asserts (claims.toml), and whether what has been measured agrees."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Template

from fedswe.results.files import write_whole
from fedswe_paper.cell import Dynamics
from fedswe_paper.exact import exact_findings
from fedswe_paper.margin import ENOUGH, STATUSES, Finding, Margin, Status, combined, pooled
from fedswe_paper.measurements import Measurements, accuracy, swing
from fedswe_paper.predicates import MODELS, PREDICATES, Place
from fedswe_paper.publish import folder_of
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
RULE = (files(__package__) / "rule.md").read_text(encoding="utf-8")  # how a verdict is reached
PAGE = (files(__package__) / "claims.md.jinja").read_text(encoding="utf-8")

Judged = list[tuple[Claim, Verdict]]


def judge(selection: Selection, measured: Measurements) -> Judged:
    return [(claim, claim.verdict(selection, measured)) for claim in CLAIMS]


def summary_rows(judged: Judged) -> list[tuple[str, ...]]:
    """Each claim with its verdict, where it holds, and the margin that decides it.

    Of that: value, threshold, standard error, seeds, rounds.
    """
    return [(claim.id, verdict.status, verdict.count, *_summary(verdict)) for claim, verdict in judged]


def _summary(verdict: Verdict) -> tuple[str, ...]:
    if verdict.deciding is None:
        return ("—",) * 5
    margin = verdict.deciding[1]
    *numbers, rounds = _shown(margin)
    return *numbers, "—" if margin.exact else str(len(margin.seeds)), rounds


_FORMATS = {"points": (1, "f"), "rounds": (0, "f"), "%": (0, "f"), "log10": (2, "f"), "": (2, "g")}  # by unit
_MOST_DIGITS = 6


def _shown(margin: Margin) -> tuple[str, ...]:
    """Mean, with a sign and so many digits that it differs from the threshold; threshold; standard error; rounds."""
    fewest, kind = _FORMATS[margin.unit]
    threshold, error = f"{margin.threshold + 0.0:.{fewest}{kind}}", f"{margin.error + 0.0:.{fewest}{kind}}"
    if margin.exact or math.isnan(margin.error):
        error = "exact" if margin.exact else "not known"
    means = [f"{margin.mean + 0.0:+.{places}{kind}}" for places in range(fewest, _MOST_DIGITS + 1)]
    mean = next((mean for mean in means if float(mean) != margin.threshold), means[0])
    mean = "NaN" if math.isnan(margin.mean) else {"at least": "≥ ", "at most": "≤ "}.get(margin.beyond, "") + mean
    shorter = f" of {margin.of_paper}" if margin.rounds < margin.of_paper else ""  # than the paper has
    rounds = "—" if margin.exact else f"{margin.rounds}{shorter}"
    return tuple(text.replace("-", "−") for text in (mean, threshold, error, rounds))


_COLUMNS = [
    "place", "margin", "threshold", "standard_error", "degrees_of_freedom", "seeds", "rounds", "rounds_of_paper",
    "unit", "margin_of",
]  # fmt: skip


def publish_claims(selection: Selection, judged: Judged, measured: Measurements, out: Path) -> Path:
    """claims.md for readers; for programs claims.csv, a row per claim, and claims-margins.csv, a row per margin."""
    folder = folder_of(selection, out)
    claims = [
        [claim.id, verdict.status, verdict.count, *(_cells(*verdict.deciding) if verdict.deciding else [""] * 10)]
        for claim, verdict in judged
    ]
    margins = [
        [claim.id, finding.status, margin.status, *_cells(finding.place, margin)]
        for claim, verdict in judged
        for finding in verdict.findings
        for margin in finding.margins
    ]
    for name, head, rows in (
        ("claims", ["id", "status", "where"], claims),
        ("claims-margins", ["id", "place_status", "margin_status"], margins),
    ):
        sheet = pd.DataFrame(rows, columns=[*head, *_COLUMNS])
        write_whole(folder / f"{name}.csv", sheet.to_csv(index=False, lineterminator="\n"))
    cells = (cell for claim in CLAIMS for name in claim.recipes for cell in RECIPES[name].lines(selection))
    page = Template(PAGE, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True).render(
        selection=selection, judged=judged, rows=summary_rows(judged), statuses=STATUSES, rule=RULE.rstrip(),
        remarks=remarks(cells, measured), spreads=list(_pooled(selection, measured)), shown=_shown, beside=_beside,
        enough=ENOUGH,
    )  # fmt: skip
    write_whole(folder / "claims.md", page)
    return folder / "claims.md"


def _cells(place: str, margin: Margin) -> list[object]:
    seeds = " ".join(map(str, margin.seeds)) or "exact"
    numbers = [f"{value:.6g}" for value in (margin.mean, margin.threshold, margin.error)]
    rounds = margin.rounds or "", margin.of_paper or ""
    return [place, *numbers, margin.freedom or "", seeds, *rounds, margin.unit, margin.what]


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
        mean, threshold, error, rounds = _shown(least)
        unknown = (", one seed: " if len(least.seeds) == 1 else ", ") + "error not known"
        runs = f"{seeds_named(least.seeds)}, {rounds} rounds{unknown if error == 'not known' else ''}"
        ahead = f"{sum(margin.gap > 0 for margin in known)} of {len(known)} margins as claimed ({runs})"
        said = f"{ahead}, the least: {least.what} ({mean}, must exceed {threshold})"
    left_out = f"{lost} left out, as a run ended in NaN here, too" if lost else ""
    return "; ".join(filter(None, [said, left_out, finding.note]))
