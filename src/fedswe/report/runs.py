"""What a report says about runs: a summary in words, final scores, and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedswe.errors import FedsweError
from fedswe.figures.drawn import (
    Abscissa,
    Column,
    Drawn,
    abscissa,
    facts_of,
    groups_by_model,
    models_of,
    other_columns,
    scaled,
    series_of,
    unit_of,
    words,
)
from fedswe.figures.groups import Group
from fedswe.figures.measured import MeasuredRun
from fedswe.plotting import Panel
from fedswe.report.blocks import Cell, Section, Table, name_in_text
from fedswe.report.charts import Curves, Key, Switch, View
from fedswe.report.judged import Judged, model_words
from fedswe.report.summary import summary

_CONSENSUS = ("consensus", "approximation")
_COLUMNS = 40  # other columns of the history that are shown


def run_sections(runs: Sequence[MeasuredRun]) -> tuple[list[str], list[Section]]:
    """The summary and the sections on scores."""
    judged = Judged(runs)
    if not judged.scores:
        return [f"{facts_of(runs, name_in_text)} The runs have no score in common: only their clients are shown."], []
    sections = [Section("Final scores", [_table(judged)]), Section("Scores over the rounds", [_curves(judged)])]
    more = _more_columns(judged)
    return summary(judged), [*sections, *more]


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
            f"{model_words(model)}" if model else words(judged.score),
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
    title = f"{words(judged.score)}{', %' if judged.percent else ''}, mean over the last {judged.tail} rounds"
    return Table(title, columns, rows, _legend(judged))


def _cells(judged: Judged, model: str, name: str) -> list[str | Cell]:
    finals, ranked = judged.finals[model].get(name), judged.rankings[model]
    if not finals:
        late = any(group.name == name for group in judged.per_model[model].groups) and judged.unfinished
        return ["not finished" if late else "", ""]
    values = list(finals.values())
    lost = sum(not math.isfinite(value) for value in values)
    moves = judged.fluctuations[model][name]
    moved = judged.shown(moves) if math.isfinite(moves) else ""
    if lost:
        return ["diverged" if lost == len(values) else f"{lost} of {len(values)} diverged", moved]
    text = judged.shown(float(np.mean(values)))
    if len(values) > 1:
        text += f" ± {judged.shown(float(np.std(values, ddof=1)))}"
    if ranked is None or len(judged.names) == 1:
        return [text, moved]
    return [Cell(text, ranked.place(name)), moved]


def _legend(judged: Judged) -> str:
    several = any(len(finals) > 1 for of in judged.finals.values() for finals in of.values())
    text = "± is the standard deviation over seeds. " if several else ""
    if judged.left_out:
        text += f"Only seeds that all have are counted, without {', '.join(map(str, judged.left_out))}. "
    text += "Fluctuation: how far the score moves up and down from one evaluation to the next in these rounds. "
    if 0 < min(run.history.last["round"] for run in judged.runs) < float(judged.tail):
        text += "Of a run with fewer rounds, all count. "
    if len(judged.names) == 1:
        return text.strip()
    if judged.more_is_better is None:
        return text + "Nothing says whether more or less of this score is better."
    if not several:
        return text + "1st marks the best; with one seed of each, differences cannot be told from noise."
    return text + (
        "1st marks the best of a column and all that are level with it: 0 is in the 95 % interval of the difference, "
        "seed by seed (Student's t). 2nd marks the best of those that can be told from it, and those level with that "
        "one; ? those further behind whose seeds are too few or differ too much to tell. Intervals are not corrected "
        "for the number of comparisons."
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
        Switch("served model", {model: model_words(model) or "all" for model in models}),
    ]
    note = facts_of(judged.runs, name_in_text)
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
    named = sorted(named, key=lambda column: not column.startswith(_CONSENSUS))[:_COLUMNS]
    if not named:
        return []
    views: dict[Key, View] = {}
    abscissas = _abscissas(runs)
    for column in named:
        those = [run for run in runs if column in run.history.columns]
        drawn = groups_by_model(those, models_of(those, []), column)
        views[(column,)] = next(iter(_views(drawn, column, abscissas).values()))
    names = {name: text for name, (_, text) in abscissas.items()}
    switch = Switch("column", {column: words(column) for column in named})
    measured = any(column.startswith(_CONSENSUS) for column in named)
    note = "" if measured else 'The consensus error is recorded with record.columns = ["consensus"].'
    chart = Curves("Other columns of the history", [switch], names, views, note, judged.order())
    return [Section("Consensus error, echoes and reports" if measured else "Echoes and reports", [chart])]
