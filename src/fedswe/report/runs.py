"""What a report says about runs: final scores, who is best within the noise, curves, and where the runs come from."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from fedswe.charts import numbers
from fedswe.comparison.measured_run import (
    MeasuredRun,
    facts_of,
    groups_of,
    labels_of,
    of_score,
    other_columns,
    parts_of,
    runs_table,
    scores_of,
)
from fedswe.errors import FedsweError
from fedswe.figures import Abscissa, abscissa, final_chart, panels_of, smoothed, y_name
from fedswe.plotting import svg
from fedswe.report.clients import client_sections
from fedswe.report.page import Figure, Report, Section, curves
from fedswe.results.table import (
    SEEDS,
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
_DOTS, _WIDTH = 12, 5.0  # names in the chart beside the summary, and its width in inches
_LONGEST = 20_000  # characters of a text
_FREE: tuple[Abscissa, ...] = ("seconds", "simulated")  # of which no code of an algorithm is imported
_MARKS = {"best": " (1st)", "level": " (1st)", "second": " (2nd)", "unclear": " (?)", "lower": ""}
_NOTE = (
    "± is the standard deviation over seeds. Fluctuation: typical jump between two evaluations. 1st: the best of a "
    "column and all that are level with it: 0 is in the 95 % interval of the difference, seed by seed (Student's t). "
    "2nd: the best of those that are proven to be behind, and all level with that one. ?: further behind, but "
    "not proven with these seeds. Fewer than three seeds prove nothing. Only seeds that all have in common count. "
    "Intervals are not corrected for the number of comparisons."
)


@dataclass(frozen=True, eq=False)
class Scores:
    """The final scores of runs at one model, and how they are ranked."""

    rows: pd.DataFrame  # of one score; NaN is no final score

    @property
    def score(self) -> str:
        return str(self.rows["score"].iloc[0])

    @property
    def model(self) -> str:
        return model_words(str(self.rows["model"].iloc[0]))

    @property
    def percent(self) -> bool:
        return self.score.endswith("accuracy")

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
        return f"{value:.1f}" if self.percent else f"{value:.4g}"

    def cell(self, name: str) -> str:
        if name not in self.finals or (values := self.finals[name].dropna()).empty:
            runs = self.rows[self.rows["name"] == name]
            return f"{self.written(self.last[name])} after {min(at[-1] for at in runs['round']):g} rounds"
        mark = _MARKS[self.places[name]] if name in self.places and len(self.places) > 1 and self.proves else ""
        return diverged_text(values) or self.value(name).removesuffix(" %") + mark

    def value(self, name: str) -> str:
        """With the deviation over seeds, if there are three."""
        values = self.finals[name].dropna()
        deviation = f" ± {self.written(values.std())}" if len(values) >= SEEDS else ""
        return f"{self.written(values.mean())}{deviation}{' %' * self.percent}"

    @cached_property
    def last(self) -> pd.Series[float]:
        """By name the mean over seeds of the last evaluation; the best first."""
        found = self.rows["curve"].map(lambda curve: curve[-1]).groupby(self.rows["name"], sort=False).mean()
        return found.replace(np.inf, np.nan).sort_values(ascending=not more_is_better(self.score), kind="stable")

    @property
    def proves(self) -> bool:
        return bool(self.finals[[*self.places]].notna().sum().min() >= SEEDS)

    def table(self) -> pd.DataFrame:
        """Final score and fluctuation of each name, the best first."""
        names, found = list(dict.fromkeys([*self.places, *self.last.index])), {}
        for name in names:
            runs = self.rows[self.rows["name"] == name]
            moves = float(np.mean([*map(fluctuation, runs["round"], runs["curve"])]))
            found[name] = [self.cell(name), self.written(moves) if math.isfinite(moves) else ""]
        return pd.DataFrame.from_dict(found, "index", columns=[self.model, f"{self.model}, fluctuation"])

    def title(self, where: str) -> str:
        """Who leads on tasks and availabilities, in a line; empty where nothing is ranked."""
        best, *others = [*self.places] or [""]
        level = [name for name in others if self.places[name] == "level"]
        if not others:
            return f"{best}{where}: {in_words(self.score)} {self.value(best)}" if best else ""
        if not self.proves:
            return f"{best} is first{where}, but fewer than three seeds rank nothing"
        if len(level) == len(others):
            return f"{listed([best, *level], 3)} are level{where}"
        are = f"{level[0]} is" if len(level) == 1 else f"{len(level)} are"
        return f"{best} leads{where}" + f"; {are} level" * bool(level)

    def sentence(self) -> str:
        """Who is best, level and behind; empty where nothing is ranked."""
        best, *others = [*self.places] or [""]
        level = [name for name in others if self.places[name] == "level"]
        lower = [name for name in others if self.places[name] in ("second", "lower")]
        text = f"{self.model}: {best} has the best {in_words(self.score)}, {self.value(best)}" if best else ""
        text += f"; level with it within the noise: {listed(level)}" if level else ""
        if lower:
            gap = difference(self.finals, lower[0], best)
            behind = f"by {self.written(abs(gap.mean))} ± {self.written(gap.half)}{' points' * self.percent}"
            text += f"; behind it: {listed(lower)} ({f'{lower[0]} ' * (len(lower) > 1)}{behind})"
        text += "; the seeds are too few to rank the others" * (len(others) > len(level) + len(lower))
        return f"{text[:1].upper()}{text[1:]}." * bool(text)


def scored(runs: Sequence[MeasuredRun], table: pd.DataFrame) -> list[Scores]:
    """The final scores of each model, by the score to read first; runs that stopped before the others have none."""
    every = []
    for score in scores_of(table)[:1]:
        for _, rows in of_score(table, score).groupby("model", sort=False):
            shown = [runs[i] for i in rows["run"]]
            several = len({run.rounds for run in shown}) > 1  # those that are not finished have fewer rounds
            late = [run.rounds <= 0 or (several and is_unfinished(run)) for run in shown]
            diverged = rows["diverged"] & np.logical_not(late)
            every.append(Scores(rows.assign(value=rows["value"].mask(late), diverged=diverged)))
    return every


def finding(runs: Sequence[MeasuredRun], every: Sequence[Scores] | None = None) -> tuple[str, list[str]]:
    """The title of a report on runs, and at most three sentences, as plain text."""
    every = scored(runs, runs_table(runs)) if every is None else every
    task, availability = parts_of(runs)
    where = f" on {task}" * bool(task) + f" under {availability}" * bool(availability)
    first = next((of.title(where) for of in every[:1]), "") or f"{listed([*labels_of(runs)], 3)}{where}"
    tops = {next(iter(of.places), "") for of in every}
    model = f" ({every[0].model})" if len(tops) > 1 and " leads" in first else ""
    going = sum(map(is_unfinished, runs))
    so_far = f"{len(runs) - going} of {len(runs)} runs have ended: " * bool(going)
    return f"{so_far}{first}{model}", [*filter(None, [of.sentence() for of in every[:2]]), facts_of(runs)]


def run_report(runs: Sequence[MeasuredRun], imports: bool) -> Report:
    """Who is best, its dot chart, curves, and everything else in folded sections."""
    table = runs_table(runs)
    every, scores = scored(runs, table), scores_of(table)[:_SCORES]
    title, sentences = finding(runs, every)
    if not scores:
        sentences.append("The runs have no score in common: only their clients are shown.")
        return Report(title, sentences, [*(client_sections(runs) if imports else []), origin(runs)])
    finals = pd.concat([of.table() for of in every], axis="columns").fillna("").rename_axis("runs").reset_index()
    order, unfinished = finals["runs"].tolist(), [run.source for run in runs if is_unfinished(run)]
    tail = f"{in_words(scores[0])}, mean over the last {min(TAIL, max(run.rounds for run in runs)):g} rounds"
    more = [*(of.sentence() for of in every[2:]), *[f"Not finished: {listed(unfinished)}."] * bool(unfinished)]
    figures = {"Scores": _curves(runs, table, scores, order, get_args(Abscissa)[1:] if imports else _FREE)}
    sections = [
        Section("Scores over the rounds", figures=figures, note=smoothed(table)),
        Section("Final scores", more, {tail: finals}, note=_NOTE, folded=not unfinished),
    ]
    if others := [column for column in other_columns(table) if column not in ("seconds", "simulated_seconds")]:
        figures = {"Other columns": _curves(runs, table, others[: 2 * _SCORES], order)}
        sections.append(Section("Other columns of the history", figures=figures, folded=True))
    sections += [*(client_sections(runs, order) if imports else []), origin(runs)]
    lost = {of.model: [name for name in of.finals if np.isinf(of.finals[name]).any()] for of in every}
    alarms = [f"{model}: a seed of {listed(names)} diverged." for model, names in lost.items() if names]
    return Report(title, sentences, sections, alarms, _dots(runs, every, order))


def _dots(runs: Sequence[MeasuredRun], every: Sequence[Scores], order: Sequence[str]) -> dict[str, bytes]:
    """The final scores of the best; nothing where matplotlib is not installed."""
    rows = pd.concat([of.rows for of in every])
    rows = rows[(rows["value"].notna() | rows["diverged"]) & rows["name"].isin(order[:_DOTS])]
    if rows.empty or find_spec("matplotlib") is None:
        return {}
    chart = final_chart(runs, rows, every[0].score, _WIDTH)
    return {f"Final scores of {listed(order[:_DOTS])}: a dot per seed, and the mean": svg(chart.draw, chart.size)}


def _curves(
    runs: Sequence[MeasuredRun], table: pd.DataFrame, scores: Sequence[str], order: Sequence[str],
    axes: Sequence[Abscissa] = (),
) -> Figure:  # fmt: skip
    """Over rounds, and each of these axes that all runs have; for bytes, the algorithm is imported."""
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
    for x in axes:
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
            text = file.read_text(encoding="utf-8", errors="replace")
            listings[f"{first.label or name}, seed {first.seed}"] = text[:_LONGEST]
    command = shlex.join(["fedswe", "run", f"{runs[0].source}/config.toml"])
    again = f"A run can be run again from its configuration: {command}"
    return Section(
        "How to reproduce this", [again] * bool(listings), {"Measured with": table} if facts else {}, listings=listings,
        folded=True,
    )  # fmt: skip


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
