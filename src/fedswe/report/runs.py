"""What a report says about runs: final scores, who is best within the noise, curves, and where the runs come from."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from fedswe.charts import numbers
from fedswe.comparison.measured_run import (
    MeasuredRun,
    facts_of,
    groups_of,
    of_score,
    other_columns,
    runs_table,
    scores_of,
)
from fedswe.errors import FedsweError
from fedswe.figures import Abscissa, abscissa, panels_of, y_name
from fedswe.report.page import Figure, Section, curves
from fedswe.results.table import (
    TAIL,
    by_seed,
    difference,
    diverged_text,
    fluctuation,
    in_words,
    more_is_better,
    on_common_seeds,
    ranking,
)

_SCORES, _KINDS = 20, 100  # that are shown
_LONGEST = 20_000  # characters of a text
_MARKS = {"best": " (1st)", "level": " (1st)", "second": " (2nd)", "unclear": " (?)", "lower": ""}
_NOTE = (
    "± is the standard deviation over seeds. Fluctuation: how far the score moves up and down from one evaluation to "
    "the next. 1st marks the best of a column and all that are level with it: 0 is in the 95 % interval of the "
    "difference, seed by seed (Student's t). 2nd marks the best of those that can be told from it, and those level "
    "with that one; ? those further behind whose seeds are too few or differ too much to tell. Only seeds that all "
    "have in common are counted. Intervals are not corrected for the number of comparisons."
)


@dataclass(frozen=True, eq=False)
class Scores:
    """The final scores of runs at one model, and how they are ranked."""

    rows: pd.DataFrame  # of one score; NaN is no final score

    @property
    def score(self) -> str:
        return str(self.rows["score"].iloc[0])

    @property
    def title(self) -> str:
        return model_words(str(self.rows["model"].iloc[0]))

    @cached_property
    def finals(self) -> pd.DataFrame:
        """Of the seeds over which names are compared."""
        return on_common_seeds(by_seed(self.rows, "name").dropna(how="all"))

    @cached_property
    def places(self) -> Mapping[str, str]:
        """The best first; empty where nothing says whether more or less is better."""
        more = more_is_better(self.score)
        return {} if more is None else ranking(self.finals, more)

    def written(self, value: float) -> str:
        return f"{value:.1f}" if self.score.endswith("accuracy") else f"{value:.4g}"

    def cell(self, name: str) -> str:
        values = self.finals[name].dropna()
        if values.empty or np.isinf(values).any():
            return diverged_text(values) or "not finished"
        deviation = f" ± {self.written(values.std())}" if len(values) > 1 else ""
        mark = _MARKS[self.places[name]] if len(self.places) > 1 else ""
        return f"{self.written(values.mean())}{deviation}{mark}"

    def table(self) -> pd.DataFrame:
        """Final score and fluctuation of each name, the best first."""
        names, found = list(dict.fromkeys([*self.places, *self.finals])), {}
        for name in names:
            runs = self.rows[self.rows["name"] == name]
            moves = float(np.mean([*map(fluctuation, runs["round"], runs["curve"])]))
            found[name] = [self.cell(name), self.written(moves) if math.isfinite(moves) else ""]
        return pd.DataFrame.from_dict(found, "index", columns=[self.title, f"{self.title}, fluctuation"])

    def sentences(self) -> list[str]:
        title, (best, *others), found = self.title[:1].upper() + self.title[1:], [*self.places] or [""], []
        if best:
            score, unit = in_words(self.score), " points" if self.score.endswith("accuracy") else ""
            found.append(f"{title}: {best} has the best {score}, {self.cell(best).removesuffix(_MARKS['best'])}.")
            level = [name for name in others if self.places[name] == "level"]
            lower = [name for name in others if self.places[name] in ("second", "lower")]
            if level:
                found[0] += f" Level with it within the noise: {listed(level)}."
            if lower:
                gap = difference(self.finals, lower[0], best)
                behind = f"{self.written(abs(gap.mean))} ± {self.written(gap.half)}{unit}"
                found[0] += f" Behind it: {listed(lower)}; {lower[0]} by {behind}."
            if len(others) > len(level) + len(lower):
                found[0] += " Of others it cannot be told: there are too few seeds, or they differ too much."
        lost = [name for name in self.finals if np.isinf(self.finals[name]).any()]
        return found + [f"{title}: a seed of {listed(lost)} diverged."] * bool(lost)


def run_sections(runs: Sequence[MeasuredRun], imports: bool) -> tuple[list[str], list[Section]]:
    """Sentences for the summary, and the sections on scores."""
    unfinished = [run.source for run in runs if is_unfinished(run)]
    summary, table = [facts_of(runs), *[f"Not finished: {listed(unfinished)}."] * bool(unfinished)], runs_table(runs)
    scores = scores_of(table)[:_SCORES]
    if not scores:
        return [*summary, "The runs have no score in common: only their clients are shown."], []
    every = []
    for _, rows in of_score(table, scores[0]).groupby("model", sort=False):
        shown = {i: runs[i] for i in rows["run"]}
        several = len({run.rounds for run in shown.values()}) > 1  # those that are not finished have fewer rounds
        late = [run.rounds <= 0 or (several and is_unfinished(run)) for run in shown.values()]
        every.append(
            Scores(rows.assign(value=rows["value"].mask(late), diverged=rows["diverged"] & np.logical_not(late)))
        )
    finals = pd.concat([of.table() for of in every], axis="columns").fillna("").rename_axis("runs").reset_index()
    order = finals["runs"].tolist()
    tail = f"{min(TAIL, max(run.rounds for run in runs)):g}"
    sections = [
        Section(
            "Final scores", tables={f"{in_words(scores[0])}, mean over the last {tail} rounds": finals}, note=_NOTE
        ),
        Section("Scores over the rounds", figures={"Scores": _curves(runs, table, scores, order, imports)}),
    ]
    if others := [column for column in other_columns(table) if column not in ("seconds", "simulated_seconds")]:
        figure = _curves(runs, table, others[: 2 * _SCORES], order, imports)
        sections.append(Section("Other columns of the history", figures={"Other columns": figure}))
    return [*summary, *(sentence for of in every for sentence in of.sentences())], sections


def _curves(
    runs: Sequence[MeasuredRun], table: pd.DataFrame, scores: Sequence[str], order: Sequence[str], imports: bool
) -> Figure:
    """Over each x axis that all runs have; bytes are those of the algorithm, which is imported for it."""
    rows = {score: of_score(table, score) for score in scores}
    at, name = abscissa("rounds", runs)
    panels = [
        replace(panel, title=_title(panel.title, score), log=False)
        for score in scores
        for panel in panels_of(rows[score], score, at, name)
    ]
    shown = numbers(panels)
    # On the other axes, the numbers are the same but for x.
    key, points = pd.MultiIndex.from_frame(shown[["panel", "label", "x"]]), pd.concat(rows.values())
    points["panel"] = [_title(in_words(row.model), row.score) for row in points.itertuples()]
    points = points.explode("round").astype({"round": float})
    tables = {name: shown}
    for x in get_args(Abscissa)[1:] if imports else ("seconds", "simulated"):
        try:
            at, name = abscissa(x, runs)
        except FedsweError:
            continue
        means = points.join(at, on=["run", "round"]).groupby(["panel", "name", "round"])["x"].mean()
        tables[name] = shown.assign(x=means.loc[key].to_numpy())
    return curves(tables, order)


def _title(model: str, score: str) -> str:
    return ": ".join(filter(None, [model, y_name(score)]))


def is_unfinished(run: MeasuredRun) -> bool:
    """Without final models, and with fewer rounds than its configuration says."""
    rounds = run.config.get("rounds")
    return not run.sizes and isinstance(rounds, int) and run.rounds < rounds


def model_words(model: str) -> str:
    return "server model" if model == "server" else in_words(model) or "all models"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Of many names the first, and how many there are besides."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# where they come from ----------------------------------------------------------------------------------------
def origin(runs: Sequence[MeasuredRun]) -> Section:
    """Commands, machines, and the resolved configuration of the first run of each kind."""
    facts: dict[str, dict[str, None]] = {}
    for noted in (_noted(Path(run.source)) for run in runs):
        for name, value in noted.items():
            facts.setdefault(name, {})[value[:_LONGEST]] = None
    table = pd.DataFrame([(name, listed([*values])) for name, values in facts.items()], columns=["what", "value"])
    listings = {}
    for name, (first, *_) in list(groups_of(list({id(run.history): run for run in runs}.values())).items())[:_KINDS]:
        if (file := Path(first.source) / "config.toml").is_file():
            listings[f"{name}, seed {first.seed}"] = file.read_text(encoding="utf-8", errors="replace")[:_LONGEST]
    command = shlex.join(["fedswe", "run", f"{runs[0].source}/config.toml"])
    again = f"A run can be run again from its configuration: {command}"
    return Section(
        "How to reproduce this", [again] * bool(listings), {"Measured with": table} if facts else {}, listings=listings
    )


def _noted(path: Path) -> dict[str, str]:
    """What run.json says, in flat texts; nothing where it is missing or damaged."""
    file = path / "run.json"
    try:
        noted = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        command = shlex.join(["fedswe", *noted.pop("command")[1:]])
        flat = pd.json_normalize(noted, sep=" ").iloc[0]
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return {}
    return {"command": command, **{str(name): str(value) for name, value in flat.items() if name != "started"}}
