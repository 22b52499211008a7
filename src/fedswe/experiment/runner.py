"""Run an experiment: rounds, evaluations, checkpoints."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from fedswe.core.value import typed
from fedswe.engine.base import Attendance
from fedswe.engine.batched import step_together
from fedswe.engine.outputs import Outputs
from fedswe.errors import FedsweError, require, warn
from fedswe.experiment.configuration import dump, load_text, recorded, refuse_changed, refuse_other, settings
from fedswe.experiment.experiment import Experiment, assemble, changed_parameters
from fedswe.experiment.result import Result
from fedswe.progress import Progress
from fedswe.registry import instance
from fedswe.results.files import Lines
from fedswe.results.history import History, Row, Tally, divergence
from fedswe.results.model_file import Models
from fedswe.results.run_directory import Checkpoint, ReportedLines, RunDirectory, provenance
from fedswe.tracking import Status, Tracking, check_trackers

Watch = Callable[[int, Row | None], None]  # called after every round, with the new row if there is one


class StopRun(Exception):
    """Raised by a `watch` to stop a run after the current round; a checkpoint is saved first."""


@typed
def run(experiment: Experiment | str, out: str | Path | None = None, watch: Watch | None = None) -> Result:
    """Run from the start; with `out`, keep everything in a new run directory there.

    A label such as "fedavg:lr=0.5" stands for `Experiment(algorithm="fedavg:lr=0.5")`. `watch` is called after every
    round; without it the rounds run are shown on a terminal and in a notebook.
    """
    if isinstance(experiment, str):
        experiment = Experiment(algorithm=instance("algorithm", experiment, "algorithm"))
    if experiment.track:
        check_trackers(experiment.track, kept=out is not None)
    runner = Runner(experiment)
    threads = threads_of([runner])
    with ExitStack() as held:
        if out is not None:
            directory = RunDirectory(Path(out))
            directory.create(dump(experiment, kept=True), provenance(recorded(experiment), threads))
            held.enter_context(directory.held())
            runner.keep_in(directory)
        try:
            return _advance_one(runner, threads, watch)
        except Exception:
            if out is not None and runner.engine.t == 0:  # it failed before it had anything to keep
                directory.discard()
            raise


def advance(runners: Sequence[Runner], threads: int) -> Generator[list[tuple[Runner, Row | None]], None, None]:
    """Run all rounds of several runs, the local training of each round as one stack, with so many threads.

    Yields after every round the runs that took part in it, with the new row of their history if there is one. A run is
    ended as soon as its own last round is done. Results are those of running them one by one, to the rounding of the
    arithmetic; the column `seconds` is the time of the whole stack.
    """
    left: Status = "failed"
    try:
        with limited_to(threads):
            for runner in runners:
                runner.begin()
                if not runner.going:
                    runner.end()
        while going := [runner for runner in runners if runner.going]:
            with limited_to(threads):  # not while this generator waits: the caller has its own number
                attendances = step_together([runner.engine for runner in going])
                rows = [runner.after_round(who) for runner, who in zip(going, attendances, strict=True)]
                for runner in going:
                    if not runner.going:
                        runner.end()
            yield list(zip(going, rows, strict=True))
    except (GeneratorExit, KeyboardInterrupt, SystemExit):
        left = "stopped"
        raise
    finally:
        for runner in runners:
            runner.close(left)


def threads_of(runners: Sequence[Runner]) -> int:
    """How many threads the runs of one stack compute with: what they ask for, else $OMP_NUM_THREADS, else one.

    Several make small work slower, and much slower while other processes use the cores (benchmarks/README.md).
    """
    asked = max((runner.experiment.threads for runner in runners), default=0)
    return asked or (torch.get_num_threads() if "OMP_NUM_THREADS" in os.environ else 1)


@contextmanager
def limited_to(threads: int) -> Iterator[None]:
    """Compute with so many threads; afterwards torch has the number that it had before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _advance_one(runner: Runner, threads: int, watch: Watch | None) -> Result:
    rounds = advance([runner], threads)
    with Progress() as shown:
        watch = watch or (lambda t, _: shown(t, runner.experiment.rounds))
        try:
            for ((_, row),) in rounds:
                watch(runner.engine.t, row)
        except StopRun:
            runner.save()  # before the generator ends, which closes the trajectory
            raise
        finally:
            rounds.close()
    if sign := divergence(runner.history):
        given = [f"algorithm.{key} = {value}" for key, value in changed_parameters(runner.experiment.algorithm).items()]
        also = f", or change {' and '.join(given)}" if given else ""
        if all(map(math.isfinite, runner.history.rows[0].values())):
            warn(f"the model diverged ({sign}): lower local.lr, or set local.clip{also}")
        else:
            warn(f"the scores are not finite before the first round ({sign}): check the data and the initial model")
    return runner.result()


@typed
def resume(out: str | Path, watch: Watch | None = None, track: Sequence[str] | None = None) -> Result:
    """Continue the run in `out`; it ends with the same bits as if it had never stopped.

    `track` names other trackers than those it was started with. Parts of the experiment that exist only in memory must
    be made again before, from the same content.
    """
    directory = RunDirectory(Path(out))
    experiment = load_text(directory.config(), str(directory.path / "config.toml"))
    if directory.finished:
        history = directory.history()
        ended, rounds = int(history.last["round"]), experiment.rounds
        whole = ended == rounds or (ended < rounds and experiment.clock.may_end_early)
        ends = f"its history.csv ends with round {ended} and its config.toml says {rounds}"
        require(whole, f"{out} is finished, but {ends}: start a new run")
        return Result(history, directory.path, directory.models(), experiment)
    refuse_changed(directory.recorded(), experiment, directory.path)
    if track is not None:
        experiment = replace(experiment, track=list(track))
    check_trackers(experiment.track)
    runner = Runner(experiment)
    with directory.held():
        runner.keep_in(directory, directory.load_checkpoint())
        threads = threads_of([runner])
        directory.note(provenance(recorded(experiment), threads))
        return _advance_one(runner, threads, watch)


class Runner:
    """One run: its engine, its evaluated models, and its directory."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.engine = assemble(experiment)
        self.outputs = Outputs(self.engine, experiment.evaluate.outputs())
        self.history = History()
        self._directory: RunDirectory | None = None
        self._rows: Lines | None = None  # history.csv
        self._trajectory: Lines | None = None
        self._reported: ReportedLines | None = None
        self._tally = Tally()
        self._began = time.perf_counter()
        self._tracking = Tracking(experiment.track, settings(experiment) if experiment.track else {})

    def keep_in(
        self, directory: RunDirectory, checkpoint: Checkpoint | None = None, tracked: Path | None = None
    ) -> None:
        """Keep the run in a directory, and continue from its checkpoint. `tracked` is another one for its trackers."""
        self._tracking.directory = tracked or directory.path
        if checkpoint is not None:
            refuse_other(load_text(checkpoint.config, "its configuration"), self.experiment, directory.path)
            try:
                self.engine.load(checkpoint.tensors, checkpoint.round)
                self.outputs.load(checkpoint.tensors)
            except KeyError as missing:
                raise FedsweError(f"another version wrote {directory.path}: its checkpoint lacks {missing}") from None
            self.history, self._tally = directory.history(checkpoint.history_bytes), checkpoint.tally
            self._began = time.perf_counter() - checkpoint.seconds
        directory.sweep()
        self._directory = directory
        if self.experiment.record.trajectory:
            keep = checkpoint.trajectory_bytes if checkpoint else 0
            self._trajectory = Lines(directory.path / "trajectory.csv", keep)
        try:
            self._reported = ReportedLines.open(directory.path, self.engine.m, self.engine.t)
            self._rows = Lines(directory.path / "history.csv", checkpoint.history_bytes if checkpoint else 0)
        except FedsweError:
            self.close()
            raise

    @property
    def going(self) -> bool:
        return self.engine.t < self.experiment.rounds and not self.engine.timeline.over

    def begin(self) -> None:
        if self.engine.t == 0:
            self._log_model()
            self._evaluate()

    def after_round(self, who: Attendance) -> Row | None:
        """Record a round that the engine has run; returns the new row of the history, if one is due."""
        self._tally = self._tally.with_round(who)
        self.outputs.after_round()
        self._log_model()
        if self._reported is not None:
            self._reported.add(self.engine.last == self.engine.t - 1)
        t, rounds, every = self.engine.t, self.experiment.rounds, self.experiment.record.checkpoint
        row = self._evaluate() if self.experiment.evaluate.due(t, rounds) or not self.going else None
        if every and t % every == 0 and self.going:
            self.save()
        self._tracking.log(self.history.rows)
        return row

    def end(self) -> None:
        t, rounds, why = self.engine.t, self.experiment.rounds, self.engine.timeline.shortened
        if why and t < rounds:
            warn(f"the run ends after {t} of {rounds} rounds: {why}")
        if t and not (self.engine.last >= 0).any():
            late = ", or raise clock.deadline" if self.history.last.get("total_selected") else ""
            warn(f"no client reported in any round, so the model is the initial one: check the availability{late}")
        if self._rows is not None:
            self._rows.sync()
        if self._directory is not None:
            models = self._models().to_bytes(self.experiment.task, self.experiment.algorithm, self.engine.t)
            self._directory.finish(models)
        self._tracking.log(self.history.rows)
        self.close("finished")

    def result(self) -> Result:
        """The result of a run that has ended."""
        place = self._directory.path if self._directory else None
        return Result(self.history, place, self._models(), self.experiment)

    def _models(self) -> Models:
        rows, evaluate = self.history.rows, self.experiment.evaluate
        chosen, state_dict = self.outputs.chosen(rows), self.engine.problem.state_dict
        return Models.of(self.outputs.models(rows), state_dict, chosen, evaluate.served)

    def close(self, status: Status = "failed") -> None:
        """Close the files, and tell the trackers why the run does not go on."""
        self._tracking.finish(status)
        for file in (self._rows, self._trajectory, self._reported):
            if file is not None:
                file.close()

    def _evaluate(self) -> Row:
        row: Row = {"round": self.engine.t, **self._tally.columns(), **self.engine.timeline.columns()}
        self._tally = Tally()
        row |= (scores := self.outputs.columns(self.engine.evaluate, self.history.rows))
        score, names = self.experiment.evaluate.score, [f"{name}_" for name in self.experiment.evaluate.outputs()]
        if score is not None and not any(name + score in scores for name in names):
            there = {column.removeprefix(name): 0 for name in names for column in scores if column.startswith(name)}
            raise FedsweError(f"evaluate.score = {score}: no such score; there are {', '.join(there)}")
        for name in self.experiment.record.columns:
            more = instance("column", name, "record.columns").values(self.engine)
            taken = sorted({"seconds", *row} & more.keys())
            require(not taken, f"record.columns: {name} gives {', '.join(taken)}, which the history has already")
            row |= more
        if self._reported is not None:
            self._reported.write()
        row["seconds"] = round(time.perf_counter() - self._began, 3)
        self.history.append(row)
        if self._rows is not None:
            header, _, line = History([row]).to_csv().partition("\n")
            self._rows.append(line if self._rows.bytes else f"{header}\n{line}")
        return row

    def _log_model(self) -> None:
        if self._trajectory is not None:
            x = self.engine.server_model()
            if not self._trajectory.bytes:
                self._trajectory.append("round," + ",".join(f"x{j}" for j in range(x.numel())) + "\n")
            self._trajectory.append(",".join([str(self.engine.t), *map(repr, x.tolist())]) + "\n")

    def save(self) -> None:
        """Write a checkpoint, if the run is kept anywhere."""
        if self._directory is None or self._rows is None:
            return
        for lines in filter(None, (self._rows, self._trajectory)):
            lines.sync()
        if self._reported is not None:
            self._reported.write()
        self._directory.save_checkpoint(
            Checkpoint(
                config=dump(self.experiment),
                round=self.engine.t,
                seconds=time.perf_counter() - self._began,
                history_bytes=self._rows.bytes,
                tally=self._tally,
                trajectory_bytes=self._trajectory.bytes if self._trajectory else 0,
                tensors={**self.engine.state(), **self.outputs.state()},
            )
        )
