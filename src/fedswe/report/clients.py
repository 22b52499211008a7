"""What a report says about clients: who was available when, what each holds, and how the models serve it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedswe.analysis.description import record_of, slots_of_run
from fedswe.availability.schedule import Floats
from fedswe.availability.statistics import Record
from fedswe.comparison.measured_run import MeasuredRun, groups_of, part_name
from fedswe.errors import FedsweError, first_line, printable, require
from fedswe.experiment.configuration import load_text
from fedswe.experiment.experiment import populate
from fedswe.gym.client_facts import ClientFacts, accuracy_by_client
from fedswe.report.page import Figure, Section, heat_map, points
from fedswe.results.run_directory import RunDirectory
from fedswe.results.table import in_words

if TYPE_CHECKING:
    from fedswe.tasks.problem import Problem

_ROWS, _COLUMNS = 200, 400  # of a heat map: of more clients some are shown, more rounds are averaged
_ROUNDS = 20_000  # in which availability is drawn again
_CELLS = 2e8  # clients times rounds, above which it is not
_WORK = 2e10  # test samples times parameters, above which there is no accuracy by client
_KINDS, _MODELS = 3, 20  # that are shown


def client_sections(runs: Sequence[MeasuredRun], order: Sequence[str] = ()) -> list[Section]:
    """A section for each task and availability, of which the first few are shown; `order` are names, the best first."""
    kinds: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        key = json.dumps([run.config.get(part) for part in ("task", "availability", "clock")], default=str)
        kinds.setdefault(key, []).append(run)
    return [_section(members, order) for members in list(kinds.values())[:_KINDS]]


def _section(runs: Sequence[MeasuredRun], order: Sequence[str]) -> Section:
    """Of the lowest seed; FedAvg and the best come first, whose accuracies are shown together."""
    seed, first = min(run.seed for run in runs), ["fedavg", *order]
    same = {name: run for name, of in groups_of(runs).items() for run in of if run.seed == seed}
    same = dict(sorted(same.items(), key=lambda of: first.index(of[0]) if of[0] in first else len(first)))
    longest = max(same.values(), key=lambda run: run.rounds)
    title = f"Clients: {part_name(longest, 'task')}, {part_name(longest, 'availability')}"
    try:
        record, problem, unit = _clients(longest)
        table, figures = _accuracy(problem, record, same)
    except Exception as error:  # whatever a task of the user's raises: the rest of the report does not need it
        why = str(error) if isinstance(error, FedsweError) else first_line(error)
        return Section(title, [f"The clients of these runs cannot be built again here: {printable(why)}."], folded=True)
    charts = {"Who was available when": _attendance(record, unit)}
    if problem.realised is not None:
        kept = _kept(record)
        labels = [str(label) for label in range(problem.realised.shape[1])]
        charts["Labels of each client"] = heat_map(
            problem.realised[kept], labels, _names(record), "label", "samples with the label"
        )
    text = [f"Clients of seed {seed}, {record.rounds:,} rounds; the most available are at the top of a chart."]
    return Section(title, text, table, figures | charts, folded=True)


def _clients(run: MeasuredRun) -> tuple[Record, Problem, str]:
    """Availability, data, and what a round of the availability is called."""
    path = Path(run.source)
    require((path / "config.toml").is_file(), "the runs have no directory")
    experiment = replace(load_text(RunDirectory(path).config(), str(path / "config.toml")), device="cpu")
    slots = slots_of_run(path)  # with simulated time, rounds of the run are not those of the availability
    rounds = min(slots or max(1, int(run.rounds)), _ROUNDS)
    _require_few(getattr(experiment.task, "clients", 1), rounds)  # before they are built
    problem, schedule = populate(experiment)
    _require_few(schedule.m, rounds)
    record = record_of(experiment, schedule, rounds)
    require(record.available.any(), f"no client is available in {rounds} rounds")
    return record, problem, "round of the availability" if slots else "round"


def _require_few(m: object, rounds: int) -> None:
    require(not isinstance(m, int) or m * rounds <= _CELLS, f"{m} clients in {rounds:,} rounds are too many to draw")


def _kept(record: Record) -> list[int]:
    """The clients that are shown, the most available first; those that were never observed last."""
    order = np.argsort(-np.nan_to_num(record.share, nan=-1.0), kind="stable")
    return [int(i) for i in order[:: -(-record.m // _ROWS)]]


def _names(record: Record) -> list[str]:
    return [f"client {i}, available in {100 * record.share[i]:.0f} %" for i in _kept(record)]


def _attendance(record: Record, unit: str) -> Figure:
    edges = np.linspace(0, record.rounds, min(record.rounds, _COLUMNS) + 1).astype(int).tolist()
    kept = np.array(_kept(record))
    parts = []
    for first, after in pairwise(edges):
        seen, there = (rows[first:after, kept].sum(axis=0) for rows in (record.seen, record.available))
        parts.append(np.divide(there, seen, out=np.full(len(kept), np.nan), where=seen > 0))
    columns = [str(b) if b - a == 1 else f"{a + 1}–{b}" for a, b in pairwise(edges)]
    return heat_map(np.stack(parts, 1), columns, _names(record), unit, "available")


def _accuracy(
    problem: Problem, record: Record, runs: Mapping[str, MeasuredRun]
) -> tuple[dict[str, pd.DataFrame], dict[str, Figure]]:
    """Of each client, at the last models, on test samples with its labels; nothing for a task without these."""
    from fedswe.tasks.supervised_problem import SupervisedProblem

    if not isinstance(problem, SupervisedProblem) or problem.data is None or problem.realised is None:
        return {}, {}
    if not 0 < len(problem.data.y_test) * problem.start.numel() < _WORK:
        return {}, {}
    found: dict[tuple[str, str], Floats] = {}
    for name, run in list(runs.items())[:_MODELS]:
        vectors = RunDirectory(Path(run.source)).models().vectors if run.sizes else {}
        for model in (model for model in run.reported if model in vectors):
            if vectors[model].shape == problem.start.shape and bool(vectors[model].isfinite().all()):
                found[name, in_words(model)] = accuracy_by_client(problem, vectors[model])
    if not found:
        return {}, {}
    facts, rows = ClientFacts(problem, np.nan_to_num(record.share)[None]), []
    for (name, model), accuracy in found.items():
        of = {"all clients": float(accuracy.mean()), **facts.summary(accuracy)}
        correlation = of.pop("correlation")
        shown = {in_words(key): f"{100 * value:.1f}" if math.isfinite(value) else "" for key, value in of.items()}
        rows.append({"runs": name, "model": model, **shown, "correlation": f"{correlation:.2f}"})
    kept = _kept(record)
    by_model = sorted(found, key=lambda key: [model for _, model in found].index(key[1]))  # the two first are compared
    clouds = {", ".join(key): 100 * found[key][kept] for key in by_model}
    figure = points(100 * record.share[kept], clouds, _names(record), "availability of the client, %", "accuracy, %")
    title = "Accuracy by client, %: of all, the worst tenth, the tenth that is rarely available, those that never are"
    return {title: pd.DataFrame(rows)}, {"Accuracy against availability": figure}
