"""What a report says about runs: a summary in words, final scores, and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedswe.comparison.table import TAIL
from fedswe.errors import FedsweError
from fedswe.figures.drawn import (
    Abscissa,
    Column,
    Drawn,
    abscissa,
    facts_of,
    groups_by_model,
    headline_of,
    models_of,
    other_columns,
    scaled,
    scores_of,
    series_of,
    unit_of,
    words,
)
from fedswe.figures.groups import Group
from fedswe.figures.measured import MeasuredRun
from fedswe.plotting import Panel
from fedswe.report.blocks import Cell, Section, Table, Text, listed, name_in_text
from fedswe.report.charts import Curves, Key, Switch, View
from fedswe.report.noise import Finals, Ranking, difference, differs, ranking

_CONSENSUS = ("consensus", "approximation")
_UNSTEADY = 2.0  # times the fluctuation of another model
_LEAST = 1.0  # points of accuracy, or percent of another score: smaller fluctuations and differences are not mentioned
_FEW = 4  # evaluations in the last rounds, below which a fluctuation is not computed
_MARKS = {1: "first", 2: "second"}


@dataclass(frozen=True)
class Judged:
    """Runs and the score that they are judged by."""

    runs: Sequence[MeasuredRun]

    @cached_property
    def models(self) -> list[str]:
        return models_of(self.runs, [])

    @cached_property
    def scores(self) -> list[str]:
        """Those of all runs at all models, the one to read first at the beginning."""
        found = scores_of(self.runs, self.models)
        if not found:
            return []
        first = headline_of(self.runs, self.models)
        return [first, *(name for name in found if name != first)]

    @property
    def score(self) -> str:
        return self.scores[0]

    @cached_property
    def per_model(self) -> dict[str, Drawn]:
        return groups_by_model(self.runs, self.models, self.score)

    @property
    def percent(self) -> bool:
        return self.score.endswith("accuracy")

    @property
    def more_is_better(self) -> bool | None:
        """None where nothing says so."""
        if self.percent:
            return True
        return False if self.score.endswith(("loss", "error", "distance")) else None

    @cached_property
    def finals(self) -> dict[str, dict[str, Finals]]:
        """By model and name, the final score of every seed; infinite where the run diverged."""
        factor = unit_of(self.score)[0]
        return {
            model: {
                group.name: {run.seed: factor * drawn.final(run) for run in group.runs if _begun(run)}
                for group in drawn.groups
            }
            for model, drawn in self.per_model.items()
        }

    @cached_property
    def rankings(self) -> dict[str, Ranking | None]:
        better = self.more_is_better
        return {model: None if better is None else ranking(of, better) for model, of in self.finals.items()}

    @cached_property
    def fluctuations(self) -> dict[str, dict[str, float]]:
        """By model and name, the mean over seeds of how far the score moves between evaluations of the last rounds."""
        factor = unit_of(self.score)[0]
        return {
            model: {
                group.name: factor * float(np.mean([_fluctuation(run, drawn) for run in group.runs]))
                for group in drawn.groups
            }
            for model, drawn in self.per_model.items()
        }

    def order(self) -> list[str]:
        """All names, the best first by the first model; those that diverged last."""
        sign = -1.0 if self.more_is_better in (True, None) else 1.0
        worth: dict[str, float] = {}
        for of in self.finals.values():
            for name, finals in of.items():
                mean = float(np.mean(list(finals.values()))) if finals else math.inf
                worth.setdefault(name, sign * mean if math.isfinite(mean) else math.inf)
        return sorted(worth, key=worth.__getitem__)

    def shown(self, value: float) -> str:
        return f"{value:.1f}" if self.percent else f"{value:.4g}"


def run_sections(runs: Sequence[MeasuredRun]) -> tuple[list[str], list[Section]]:
    """The summary and the sections on scores."""
    judged = Judged(runs)
    if not judged.scores:
        return [f"{facts_of(runs)} The runs have no score in common: only their clients are shown."], []
    sections = [Section("Final scores", [_table(judged)]), Section("Scores over the rounds", [_curves(judged)])]
    more = _more_columns(judged)
    return _summary(judged), [*sections, *more]


def _begun(run: MeasuredRun) -> bool:
    return run.history.last["round"] > 0


# in words ----------------------------------------------------------------------------------------------------
def _summary(judged: Judged) -> list[str]:
    runs = judged.runs
    groups = list(dict.fromkeys(group.name for drawn in judged.per_model.values() for group in drawn.groups))
    number = len({id(run.history) for run in runs})
    what = f"{number} runs of {len(groups)} kinds" if 1 < len(groups) < number else f"{number} run{'s' * (number > 1)}"
    sentences = [f"{what}: {facts_of(runs)}"]
    for model in judged.finals:
        sentences += _standing(judged, model, len(groups))
    if "server" in judged.finals and "client_mean" in judged.finals:
        sentences += _unsteady(judged)
        sentences += _better_model(judged)
    sentences += _diverged(judged)
    late = [run.source for run in runs if run.sizes == {} and run.history.last["round"] < run.config.get("rounds", 0)]
    if late:
        sentences.append(f"Not finished: {listed(late, 3)}.")
    return sentences


def _standing(judged: Judged, model: str, groups: int) -> list[str]:
    found, score = judged.rankings[model], words(judged.score)
    named = f"{_model(model)}: " if model else ""
    if found is None:
        return []
    of = judged.finals[model]
    mean = judged.shown(float(np.mean(list(of[found.best].values())))) + (" %" if judged.percent else "")
    if groups == 1:
        return [f"{named}the {score} over the last {_tail(judged)} rounds is {mean}."]
    most = "highest" if judged.more_is_better else "lowest"
    worse = "lower" if judged.more_is_better else "higher"
    text = f"{named}{name_in_text(found.best)} has the {most} {score}, {mean}"
    if all(len(finals) < 2 for finals in of.values()):
        return [f"{text}. There is one seed: differences cannot be told from noise."]
    if found.level:
        text += f"; {listed(found.level)} {'is' if len(found.level) == 1 else 'are'} level with it within the noise"
    text += "."
    lower = [name for name in (found.second, *found.second_level, *found.lower) if name]
    if lower:
        gap = difference(of[lower[0]], of[found.best])
        assert gap is not None  # they were told apart
        by = f"{judged.shown(abs(gap.mean))} ± {judged.shown(gap.half)}"
        unit = " points" if judged.percent else ""
        if len(lower) == 1:
            text += f" {name_in_text(lower[0])} is {worse} by {by}{unit}."
        else:
            text += f" {len(lower)} others are {worse}, the nearest ({name_in_text(lower[0])}) by {by}{unit}."
    return [text]


def _unsteady(judged: Judged) -> list[str]:
    """Where the server model moves much more from evaluation to evaluation than the client mean, or the reverse."""
    sentences = []
    for model, other in (("server", "client_mean"), ("client_mean", "server")):
        here, there = judged.fluctuations[model], judged.fluctuations[other]
        found = [name for name in here if name in there and _is_unsteady(judged, here[name], there[name])]
        found.sort(key=lambda name: -here[name])
        if found:
            unit = " points" if judged.percent else ""
            how = f"{judged.shown(here[found[0]])}{unit} from one evaluation to the next"
            sentences.append(
                f"The {_words(model)} of {listed(found)} is unsteady, the {_words(other)} is not: over the last "
                f"{_tail(judged)} rounds the {words(judged.score)} of {'the former' if len(found) == 1 else 'the first'}"
                f" moves by {how}, at the {_words(other)} by {judged.shown(there[found[0]])}{unit}."
            )
    return sentences


def _is_unsteady(judged: Judged, here: float, there: float) -> bool:
    least = _LEAST if judged.percent else 0.0
    return math.isfinite(here + there) and here > _UNSTEADY * there and here > least


def _better_model(judged: Judged) -> list[str]:
    sentences = []
    for model, other in (("client_mean", "server"), ("server", "client_mean")):
        names = []
        for name, of in judged.finals[model].items():
            than = judged.finals[other].get(name, {})
            gap = difference(of, than)
            if gap is not None and differs(of, than) and judged.more_is_better is not None:
                better = gap.mean if judged.more_is_better else -gap.mean
                if better > (_LEAST if judged.percent else 0.0):
                    names.append(name)
        if names:
            sentences.append(f"For {listed(names)}, the {_words(model)} is the better model to serve.")
    return sentences


def _diverged(judged: Judged) -> list[str]:
    sentences = []
    for model, drawn in judged.per_model.items():
        lost = {group.name: sum(map(drawn.diverged, group.runs)) for group in drawn.groups}
        every = [group.name for group in drawn.groups if lost[group.name] == len(group.runs)]
        some = [
            f"{name_in_text(g.name)} ({lost[g.name]} of {len(g.runs)} seeds)"
            for g in drawn.groups
            if 0 < lost[g.name] < len(g.runs)
        ]
        named = f"{_model(model)}: " if model else ""
        if every:
            sentences.append(f"{named}{listed(every)} diverged.")
        if some:
            sentences.append(f"{named}{', '.join(some)} diverged.")
    return sentences


def _fluctuation(run: MeasuredRun, drawn: Drawn) -> float:
    """Half the mean square of the steps, as a standard deviation: a slow rise or fall is not in it."""
    first = max(run.history.last["round"] - TAIL, 0)
    values = drawn.values(run)[run.history["round"] > first]
    if len(values) < _FEW or not np.isfinite(values).all():
        return math.nan
    return float(np.sqrt(np.mean(np.diff(values) ** 2) / 2))


def _tail(judged: Judged) -> str:
    return f"{min(TAIL, max(run.history.last['round'] for run in judged.runs)):g}"


def _model(name: str) -> str:
    text = _words(name)
    return text[:1].upper() + text[1:]


def _words(model: str) -> str:
    return "server model" if model == "server" else words(model)


# final scores ------------------------------------------------------------------------------------------------
def _table(judged: Judged) -> Table:
    models = list(judged.finals)
    rates = {
        (model, group.name): sorted({float(run.config["local"]["lr"]) for run in group.runs})
        for model, drawn in judged.per_model.items()
        for group in drawn.groups
    }
    several = len({tuple(of) for of in rates.values()}) > 1
    columns = ["runs"]
    for model in models:
        columns += [
            f"{_words(model)}" if model else words(judged.score),
            "fluctuation",
            *(["local rate"] if several else []),
        ]
    rows = []
    for name in judged.order():
        row: list[str | Cell] = [name]
        for model in models:
            row += _cells(judged, model, name)
            if several:
                row.append(", ".join(f"{rate:g}" for rate in rates.get((model, name), [])))
        rows.append(row)
    title = f"{words(judged.score)}{', %' if judged.percent else ''}, mean over the last {_tail(judged)} rounds"
    return Table(title, columns, rows, _legend(judged))


def _cells(judged: Judged, model: str, name: str) -> list[str | Cell]:
    finals, ranked = judged.finals[model].get(name), judged.rankings[model]
    if not finals:
        return ["", ""]
    values = list(finals.values())
    lost = sum(not math.isfinite(value) for value in values)
    moves = judged.fluctuations[model][name]
    moved = judged.shown(moves) if math.isfinite(moves) else ""
    if lost:
        return ["diverged" if lost == len(values) else f"{lost} of {len(values)} diverged", moved]
    text = judged.shown(float(np.mean(values)))
    if len(values) > 1:
        text += f" ± {judged.shown(float(np.std(values, ddof=1)))}"
    place = ranked.place(name) if ranked is not None else 0
    return [Cell(text, _MARKS.get(place, "")), moved]  # type: ignore[arg-type]


def _legend(judged: Judged) -> str:
    several = any(len(finals) > 1 for of in judged.finals.values() for finals in of.values())
    text = "± is the standard deviation over seeds. " if several else ""
    text += "Fluctuation: how far the score moves from one evaluation to the next in these rounds. "
    if judged.more_is_better is None:
        return text + "Nothing says whether more or less of this score is better."
    if not several:
        return text + "1st marks the best; with one seed differences cannot be told from noise."
    return text + (
        "1st marks the best of a column and all that are level with it: 0 is in the 95 % interval of the difference, "
        "seed by seed (Student's t). 2nd marks the best of the others and those level with that one. The intervals are "
        "not corrected for the number of comparisons."
    )


# curves ------------------------------------------------------------------------------------------------------
def _curves(judged: Judged) -> Curves:
    columns = _abscissas(judged.runs)
    views: dict[Key, View] = {}
    for score in judged.scores:
        drawn = groups_by_model(judged.runs, judged.models, score)
        views |= {(score, model): view for model, view in _views(drawn, score, columns).items()}
    models = list(dict.fromkeys(model for _, model in views))
    switches = [
        Switch("score", {score: words(score) for score in judged.scores}),
        Switch("served model", {model: _words(model) or "all" for model in models}),
    ]
    note = facts_of(judged.runs)
    if any(drawn.diverged(run) for drawn in judged.per_model.values() for run in drawn.runs):
        note += " A curve ends where one of its seeds diverged."
    names = {name: text for name, (_, text) in columns.items()}
    return Curves("Scores", switches, names, views, note, judged.order())


def _abscissas(runs: Sequence[MeasuredRun]) -> dict[str, tuple[Column, str]]:
    found: dict[str, tuple[Column, str]] = {}
    kinds: tuple[Abscissa, ...] = ("rounds", "simulated", "bytes")
    for kind in kinds:
        try:
            found[kind] = abscissa(kind, runs)
        except FedsweError:  # not all runs have it
            continue
    return found


def _views(drawn: dict[str, Drawn], score: str, columns: dict[str, tuple[Column, str]]) -> dict[str, View]:
    factor, y_name = unit_of(score)
    rounds, x_name = columns["rounds"]
    panels = [
        Panel(words(model), [series_of(group, of.values, rounds, factor) for group in of.groups], y_name, x_name)
        for model, of in drawn.items()
    ]
    return {
        model: View(
            panel, {name: [_positions(group, column) for group in of.groups] for name, (column, _) in columns.items()}
        )
        for (model, of), panel in zip(drawn.items(), scaled(panels, score), strict=True)
    }


def _positions(group: Group, column: Column) -> list[float]:
    return list(series_of(group, column, column, 1.0).x)


def _more_columns(judged: Judged) -> list[Section]:
    """Consensus errors first, then the other columns that do not belong to a model."""
    runs = judged.runs
    named = list(
        dict.fromkeys(c for run in runs for c in other_columns([run]) if c not in ("seconds", "simulated_seconds"))
    )
    named.sort(key=lambda column: not column.startswith(_CONSENSUS))
    if not named:
        return []
    views: dict[Key, View] = {}
    names: dict[str, str] = {}
    for column in named:
        those = [run for run in runs if column in run.history.columns]
        columns = _abscissas(those)
        drawn = groups_by_model(those, models_of(those, []), column)
        views[(column,)] = next(iter(_views(drawn, column, columns).values()))
        names |= {name: text for name, (_, text) in columns.items()}
    switch = Switch("column", {column: words(column) for column in named})
    measured = any(column.startswith(_CONSENSUS) for column in named)
    note = "" if measured else 'The consensus error is recorded with record.columns = ["consensus"].'
    chart = Curves("Other columns of the history", [switch], names, views, note, judged.order())
    return [
        Section(
            "Consensus error, echoes and reports" if measured else "Echoes and reports",
            [Text([note]), chart] if note else [chart],
        )
    ]
