"""What a report says about clients: who was available when, what each holds, and how the models serve it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedswe.analysis.description import of_scenario, slots_of_run
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.availability.statistics import Record, Statistics
from fedswe.errors import FedsweError, first_line, printable, require
from fedswe.experiment.configuration import load_text
from fedswe.experiment.experiment import populate
from fedswe.figures.drawn import words
from fedswe.figures.groups import Group, groups_of
from fedswe.figures.measured import MeasuredRun
from fedswe.gym.client_facts import ClientFacts, accuracy_by_client
from fedswe.report.blocks import Block, Section, Table, Text
from fedswe.report.charts import Bars, HeatMap, Points, Switch
from fedswe.results.run_directory import RunDirectory

if TYPE_CHECKING:
    from fedswe.tasks.problem import Problem
    from fedswe.tasks.supervised_problem import SupervisedProblem

_ROWS, _COLUMNS = 200, 400  # of a heat map; more clients or rounds are averaged
_ROUNDS = 20_000  # in which availability is drawn again
_CELLS = 2e8  # clients times rounds, above which it is not
_WORK = 2e10  # test samples times parameters times models, above which models are left out
_POPULATIONS = 3  # that are shown
_MODELS = 60  # whose accuracy by client is shown
_SINGLE = 40  # rounds missed that have bars of their own


@dataclass(frozen=True, eq=False)
class Clients:
    """The clients of some runs: the same task and availability, with the lowest seed."""

    name: str
    record: Record
    problem: Problem
    unit: str  # what a column of the record is

    @property
    def share(self) -> Floats:
        return self.record.share

    def order(self) -> npt.NDArray[np.int64]:
        """The most available first; those that were never observed last."""
        return np.argsort(-np.nan_to_num(self.share, nan=-1.0), kind="stable")


def client_sections(runs: Sequence[MeasuredRun]) -> list[Section]:
    """A section for each task and availability, of which the first few are shown."""
    kinds: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        key = json.dumps([run.config[part] for part in ("task", "availability", "clock")], sort_keys=True, default=str)
        kinds.setdefault(key, []).append(run)
    sections = []
    for members in list(kinds.values())[:_POPULATIONS]:
        seed = min(run.seed for run in members)
        same = [run for run in members if run.seed == seed]
        longest = max(same, key=lambda run: run.history.last["round"])
        title = "Clients" if len(kinds) == 1 else f"Clients: {_part(longest, 'task')}, {_part(longest, 'availability')}"
        sections.append(Section(title, _blocks(longest, same, groups_of(members))))
    if len(kinds) > _POPULATIONS:
        note = (
            f"The runs have {len(kinds)} tasks and availabilities; the clients of the first {_POPULATIONS} are shown."
        )
        sections.append(Section("Other clients", [Text([note])]))
    return sections


def _part(run: MeasuredRun, section: str) -> str:
    return str(run.config[section]["name"]).rpartition(":")[2]


def _blocks(run: MeasuredRun, same: Sequence[MeasuredRun], groups: Sequence[Group]) -> list[Block]:
    try:
        return _of_clients(_clients_of(run), run, same, groups)
    except Exception as error:  # whatever a task of the user's raises: the rest of the report does not need it
        why = str(error) if isinstance(error, FedsweError) else first_line(error)
        return [Text([f"The clients of these runs cannot be built again here: {printable(why)}."])]


def _of_clients(
    clients: Clients, run: MeasuredRun, same: Sequence[MeasuredRun], groups: Sequence[Group]
) -> list[Block]:
    blocks: list[Block] = [
        Text(
            [
                f"Clients of seed {run.seed}, sorted by availability"
                + (f" in the first {_ROUNDS:,} rounds." if clients.record.rounds == _ROUNDS else ".")
            ]
        ),
        _attendance(clients),
        _missed(clients),
    ]
    problem = clients.problem
    if problem.realised is None:
        blocks.append(Text(["The task has no labels: there is no label distribution and no accuracy by client."]))
    else:
        blocks.append(_labels(clients, problem.realised))
        blocks += _accuracies(clients, same, groups)
    return blocks


def _clients_of(run: MeasuredRun) -> Clients:
    path = Path(run.source)
    require((path / "config.toml").is_file(), "the runs have no directory")
    experiment = replace(load_text(RunDirectory(path).config(), str(path / "config.toml")), device="cpu")
    slots = slots_of_run(path)  # with simulated time, rounds of the run are not those of the availability
    rounds = min(slots or max(1, int(run.history.last["round"])), _ROUNDS)
    _require_few(getattr(experiment.task, "clients", 1), rounds)  # before they are built
    problem, schedule = populate(experiment)
    _require_few(schedule.m, rounds)
    name = _part(run, "availability")
    described = of_scenario(Scenario(name, experiment, schedule, problem, rounds))
    unit = "round of the availability" if slots else "round"
    return Clients(name, described.record, problem, unit)


def _require_few(m: int, rounds: int) -> None:
    require(not isinstance(m, int) or m * rounds <= _CELLS, f"{m:,} clients in {rounds:,} rounds are too many to draw")


# availability ------------------------------------------------------------------------------------------------
def _attendance(clients: Clients) -> HeatMap:
    record = clients.record
    edges = _edges(record.rounds, _COLUMNS)
    every = np.arange(record.m)
    parts = []
    for first, after in pairwise(edges):
        span = [np.full(record.m, end) for end in (first, after)]
        seen = record.seen.within(every, *span)
        there = record.available.within(every, *span)
        parts.append(np.divide(there, seen, out=np.full(record.m, np.nan), where=seen > 0))
    shares = _averaged(np.stack(parts, 1), clients)
    columns = [str(a + 1) if b - a == 1 else f"{a + 1}–{b}" for a, b in pairwise(edges)]
    mean = float(np.nanmean(clients.share))
    never = int((clients.share == 0).sum())
    note = f"On average a client is available in {100 * mean:.0f} % of the rounds"
    note += f"; {never} of {record.m} never are." if never else "."
    if record.m > _ROWS or record.rounds > _COLUMNS:
        note += " A cell is the mean over neighbouring clients and rounds."
    return HeatMap(
        "Who was available in which round", shares, _rows(clients), columns, clients.unit,
        "clients, the most often available at the top", "available", note,
    )  # fmt: skip


def _missed(clients: Clients) -> Bars:
    """How many rounds a client had missed when it was available again."""
    echoes = Statistics(clients.record).echoes
    counts = echoes[1:] if len(echoes) > 1 else np.zeros(1, dtype=np.int64)
    if len(counts) <= _SINGLE:
        labels, values = [str(r) for r in range(len(counts))], counts.tolist()
    else:  # 0, 1, 2, 3-4, 5-8, ...
        ends = [0, 1, 2]
        while ends[-1] < len(counts) - 1:
            ends.append(min(2 * ends[-1], len(counts) - 1))
        starts = [0, *(end + 1 for end in ends[:-1])]
        labels = [str(b) if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
        values = [int(counts[a : b + 1].sum()) for a, b in zip(starts, ends, strict=True)]
    total = max(1, int(counts.sum()))
    return Bars(
        "Rounds missed", labels, [100 * value / total for value in values],
        "rounds missed before being available again", "share of the reports, %",
        f"The longest absence after which a client returned was {len(counts) - 1} rounds; absences that last until the "
        "end are not counted.",
    )  # fmt: skip


def _edges(length: int, most: int) -> list[int]:
    parts = min(length, most)
    return [length * i // parts for i in range(parts + 1)]


def _averaged(values: Floats, clients: Clients) -> Floats:
    """Rows in the order of availability; more of them than a heat map has are averaged."""
    ordered, edges = values[clients.order()], _edges(len(values), _ROWS)
    if len(edges) == len(values) + 1:
        return ordered
    known = np.isfinite(ordered)
    sums, counts = (np.add.reduceat(part, edges[:-1], axis=0) for part in (np.where(known, ordered, 0.0), known * 1.0))
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def _rows(clients: Clients) -> list[str]:
    order, share = clients.order(), clients.share
    edges = _edges(len(order), _ROWS)
    found = []
    for a, b in pairwise(edges):
        mean = float(np.nanmean(share[order[a:b]])) if np.isfinite(share[order[a:b]]).any() else math.nan
        who = f"client {order[a]}" if b - a == 1 else f"{b - a} clients"
        found.append(f"{who}, available in {100 * mean:.0f} % of the rounds" if math.isfinite(mean) else who)
    return found


# data --------------------------------------------------------------------------------------------------------
def _labels(clients: Clients, shares: Floats) -> HeatMap:
    columns = [str(label) for label in range(shares.shape[1])]
    note = "Each row is a client; a dark cell is a label that most of its samples have."
    return HeatMap(
        "Labels of each client", _averaged(shares, clients), _rows(clients), columns, "label",
        "clients, the most available at the top", "samples with the label", note,
    )  # fmt: skip


def _accuracies(clients: Clients, same: Sequence[MeasuredRun], groups: Sequence[Group]) -> list[Block]:
    from fedswe.tasks.supervised_problem import SupervisedProblem

    problem = clients.problem
    if not isinstance(problem, SupervisedProblem) or problem.data is None or len(problem.data.y_test) == 0:
        return [Text(["The test samples of this task are not one data set: there is no accuracy by client."])]
    names = {id(run.history): group.name for group in groups for run in group.runs}
    finished = [run for run in same if (Path(run.source) / "model.safetensors").is_file() and id(run.history) in names]
    if not finished:
        return [Text(["No run is finished: there is no model whose accuracy by client could be computed."])]
    each = len(problem.data.y_test) * problem.start.numel() * max(len(run.models) for run in finished)
    fits = min(int(_WORK // each), _MODELS)
    if not fits:
        return [Text(["The accuracy by client is left out: the model and the test data are large."])]
    found = {
        (names[id(run.history)], model): of for run in finished[:fits] for model, of in _of_models(problem, run).items()
    }
    if not found:
        return [Text(["The stored models are not models of this task: there is no accuracy by client."])]
    note = "Each point is a client: the accuracy of the last model on test samples with the labels of the client."
    if len(finished) > fits:
        note += f" The models of {fits} of {len(finished)} runs are shown."
    kept = clients.order()[:: max(1, len(clients.share) // _ROWS)]
    options = [list(dict.fromkeys(key[i] for key in found)) for i in range(2)]
    chart = Points(
        "Accuracy against availability", 
        [Switch("runs", {n: n for n in options[0]}), Switch("served model", {m: words(m) for m in options[1]})],
        (100 * clients.share[kept]).tolist(), {key: (100 * of[kept]).tolist() for key, of in found.items()},
        [f"client {i}" for i in kept], "availability of the client, %", "accuracy, %", note,
    )  # fmt: skip
    return [chart, _by_client(problem, clients.share, found)]


def _of_models(problem: SupervisedProblem, run: MeasuredRun) -> dict[str, Floats]:
    """By model, the accuracy of each client; without models that diverged or are of another size."""
    vectors = RunDirectory(Path(run.source)).models().vectors
    return {
        model: accuracy_by_client(problem, vectors[model])
        for model in run.models
        if model in vectors
        and vectors[model].numel() == problem.start.numel()
        and bool(vectors[model].isfinite().all())
    }


def _by_client(problem: SupervisedProblem, share: Floats, found: dict[tuple[str, str], Floats]) -> Table:
    facts = ClientFacts(problem, np.nan_to_num(share)[None])
    rows = []
    for (name, model), accuracy in found.items():
        of = facts.summary(accuracy)
        shown = [f"{100 * of[key]:.1f}" if math.isfinite(of[key]) else "" for key in ("worst_tenth", "rare", "never")]
        correlation = of["correlation"]
        rows.append([
            name, words(model), f"{100 * accuracy.mean():.1f}", *shown,
            f"{correlation:.2f}" if math.isfinite(correlation) else "",
        ])  # fmt: skip
    columns = [
        "runs",
        "served model",
        "all clients",
        "worst tenth",
        "rarely available",
        "never available",
        "correlation",
    ]
    note = (
        "Accuracies in percent. Worst tenth: the clients with the lowest accuracy. Rarely available: the tenth that "
        "was available least, without those that never were. Correlation: of availability and accuracy over clients."
    )
    return Table("Accuracy by client", columns, rows, note, words=2)
