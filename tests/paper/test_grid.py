"""The grid of a reproduction: killed at any moment it continues where it stopped, and several processes share it."""

import csv
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from fedswe.grid import stack
from fedswe.grid.runner import Executor, run_cells
from fedswe_paper.recipes import RECIPES
from fedswe_paper.results import CampaignStore, load_runs
from fedswe_paper.selection import Selection
from tests.cli.command import process
from tests.cli.test_resume import die_at, wait_for
from tests.results.test_locks import claimed_by_child


def cells_of(**asked):
    return [cell.grid_cell() for cell in RECIPES["main-table"].cells(Selection("ci", "released", **asked))]


def finished(store):
    """Name -> its history, also of those that a report has put into the file of their scale."""
    found = {}
    for path in (store.path / "cells" / "ci-released").glob("*.csv"):
        with suppress(FileNotFoundError):  # a report has just moved it
            found[path.stem] = path.read_text()
    merged = {run.cell.name: run.history.to_csv(digits=6) for run in load_runs(store.path, "ci-released")}
    return found | merged


def numbers(store):
    """Name -> the lines of its history but for the seconds: of two runs these would differ."""
    return {name: [line.rsplit(",", 1)[0] for line in text.splitlines()] for name, text in finished(store).items()}


def left_over(store):
    return [path for path in (store.path / "work" / "ci-released").iterdir() if path.suffix != ".lock"]


# a few cells, forked processes ----------------------------------------------------------------------------------
FEW = cells_of(dynamics=("sine",), algorithms=("fedswe",), rounds=6)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    store = CampaignStore(tmp_path_factory.mktemp("few"))
    run_cells(FEW, store, Executor(jobs=1))
    return numbers(store)


def with_precision(experiment, precision):
    return replace(experiment, local=replace(experiment.local, precision=precision))


def in_a_process(work):
    """Whether a forked process was killed while it did the work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)  # an exception must not lead this process back into pytest
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_killed_at_every_file_operation(tmp_path, undisturbed):
    """Before, between and after the steps of starting, saving and keeping: what had ended is not run again."""
    kept = set()
    for moment in count(2, 2):
        store = CampaignStore(tmp_path / str(moment))

        def grid(store=store, moment=moment):
            die_at(moment)
            run_cells(FEW, store, Executor(jobs=1))

        if not in_a_process(grid):
            break
        before = finished(store)
        ended = [cell for cell in FEW if (store.work(cell) / "model.safetensors").exists()]
        done = [0]
        run_cells(FEW, store, Executor(jobs=1), lambda rounds, _, done=done: done.__setitem__(0, rounds))
        kept.add((len(before), len(ended)))
        assert done[0] <= 6 * len([c for c in FEW if c.name.split("/")[1] not in before and c not in ended])
        assert numbers(store) == undisturbed
        assert {name: finished(store)[name] for name in before} == before
        assert left_over(store) == []
    assert moment > 30
    assert {(0, 0), (0, 2), (1, 1), (1, 2)} <= kept  # among others: both had ended, none, one, one not cleared away


def test_a_stack_resumed_from_its_checkpoints_ends_with_the_same_bits(tmp_path, undisturbed):
    store = CampaignStore(tmp_path)

    def grid():
        stack.CHECKPOINT_SECONDS = 0.0  # in this forked process
        run_cells(
            FEW, store, Executor(jobs=1), lambda done, _: os.kill(os.getpid(), signal.SIGKILL) if done == 8 else None
        )

    assert in_a_process(grid)
    assert finished(store) == {}
    seen = []
    run_cells(FEW, store, Executor(jobs=1), lambda done, total: seen.append((done, total)))
    assert seen[-1] == (12 - 6, 12 - 6)  # two cells of six rounds, of which three each had been saved
    assert numbers(store) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_end_it_saves_the_round_it_is_in(tmp_path, undisturbed, number):
    store = CampaignStore(tmp_path)
    seen = []

    def watch(done, total):
        seen.append((done, total))
        if done == 8:  # two cells have run their fourth round
            for _ in range(2):  # as `timeout` does
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        run_cells(FEW, store, Executor(jobs=1), watch)
    assert seen[-1] == (8, 12)
    assert signal.getsignal(number) == before
    seen.clear()
    run_cells(FEW, store, Executor(jobs=1), lambda *counts: seen.append(counts))
    assert seen[-1] == (4, 4)
    assert numbers(store) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_again_later_it_ends_at_once(tmp_path, number):
    def grid():
        def watch(done, _):
            os.kill(os.getpid(), number)
            time.sleep(1.1)
            os.kill(os.getpid(), number)

        signal.signal(number, signal.SIG_DFL)  # pytest's own raises
        run_cells(FEW, CampaignStore(tmp_path), Executor(jobs=1), watch)

    assert in_a_process(grid)
    assert not list(tmp_path.rglob("checkpoint*"))  # not even the round it was in


def test_work_of_another_precision_is_not_continued(tmp_path, undisturbed):
    store = CampaignStore(tmp_path)

    def grid():
        stack.CHECKPOINT_SECONDS = 0.0  # in this forked process
        other = [replace(c, experiment=with_precision(c.experiment, "tf32")) for c in FEW]
        run_cells(
            other, store, Executor(jobs=1), lambda done, _: os.kill(os.getpid(), signal.SIGKILL) if done == 8 else None
        )

    assert in_a_process(grid)
    seen = []
    run_cells(FEW, store, Executor(jobs=1), lambda done, _: seen.append(done))
    assert seen[-1] == 12
    assert numbers(store) == undisturbed


def test_cells_another_process_lets_go_are_run_too(tmp_path, undisturbed):
    """Somebody holds a cell when the grid starts, and dies before it ends."""
    store = CampaignStore(tmp_path)
    children = [claimed_by_child(store.lock_file(FEW[0]))]

    def watch(done, total):
        if children:
            assert total == 6  # one cell was free
            child = children.pop()
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    run_cells(FEW, store, Executor(jobs=1), watch)
    assert numbers(store).keys() == undisturbed.keys()


# the command, real processes ------------------------------------------------------------------------------------
QUIET = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
WORDS = ["reproduce", "main-table", "--scale", "ci", "--algorithms", "fedswe,fedavg,mifa", "--rounds", "30"]
MANY = cells_of(algorithms=("fedswe", "fedavg", "mifa"), rounds=30)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = CampaignStore(tmp_path_factory.mktemp("many"))
    run_cells(MANY, store, Executor(jobs=1))
    return numbers(store)


def accuracies(histories):
    """Of all models at all evaluations; cells that train beside others are rounded otherwise."""
    found = {}
    for name, (head, *rows) in histories.items():
        at = [i for i, column in enumerate(head.split(",")) if column.endswith("test_accuracy")]
        found[name] = [[float(row.split(",")[i]) for i in at] for row in rows]
    return found


def same_numbers(a, b):
    """One test image in 359 may fall on the other side."""
    assert a.keys() == b.keys()
    for name in a:
        assert a[name] == [pytest.approx(row, abs=0.003) for row in b[name]]


def kill(running):
    running.send_signal(signal.SIGKILL)
    running.communicate()


def test_a_killed_grid_resumes(tmp_path, whole):
    """SIGKILL of the command at its first claim, and when some cells are finished; then it is left to end."""
    store = CampaignStore(tmp_path)
    words = [*WORDS, "--out", tmp_path, "--jobs", "1"]
    running = process(*words, **QUIET)
    wait_for(lambda: list(tmp_path.glob("work/*/*/config.toml")))
    kill(running)
    assert finished(store) == {}
    running = process(*words, **QUIET)
    wait_for(lambda: finished(store))
    kill(running)
    before = finished(store)
    assert 0 < len(before) < len(MANY)
    running = process(*words, **QUIET)
    out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    assert f"runs      {len(before)} of {len(MANY)} finished before, {len(MANY) - len(before)} left" in out
    assert {name: finished(store)[name] for name in before} == before
    same_numbers(accuracies(numbers(store)), accuracies(whole))
    assert left_over(store) == []


def rounds_begun(history):
    """Whether there is an evaluation besides that of round 0: a stack that is stopped before has nothing to save."""
    return history.exists() and len(history.read_text().splitlines()) > 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_processes_that_are_asked_to_end_save_the_round_they_are_in(tmp_path, number):
    """SIGINT as a terminal sends it, to the whole group; SIGTERM as a scheduler does, to the command alone."""
    store = CampaignStore(tmp_path)
    words = [*WORDS, "--rounds", "100000", "--out", tmp_path, "--jobs", "2"]
    running = process(*words, **QUIET, start_new_session=True)
    cells = cells_of(algorithms=("fedswe", "fedavg", "mifa"), rounds=100_000)
    wait_for(lambda: len(store.running(cells)) == len(cells))
    wait_for(lambda: all(rounds_begun(store.work(cell) / "history.csv") for cell in cells))
    os.killpg(running.pid, number) if number == signal.SIGINT else os.kill(running.pid, number)
    out, err = running.communicate()
    assert (running.returncode, err) == (130, "")
    assert "runs      stopped; the same command continues them" in out
    assert store.running(cells) == []
    assert all((store.work(cell) / "checkpoint.safetensors").exists() for cell in cells)


def test_two_processes_share_a_directory(tmp_path, whole):
    """Neither runs what the other has run, both end well, and the later report has everything."""
    store = CampaignStore(tmp_path)
    words = [*WORDS, "--out", tmp_path, "--jobs", "1"]
    both = [process(*words, **QUIET) for _ in range(2)]
    first_seen = {}
    while any(one.poll() is None for one in both):
        first_seen = finished(store) | first_seen
        time.sleep(0.01)
    errors = [one.communicate()[1] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert errors == ["", ""]
    assert {name: finished(store)[name] for name in first_seen} == first_seen
    same_numbers(accuracies(numbers(store)), accuracies(whole))
    assert left_over(store) == []
    with open(tmp_path / "ci-released" / "main-table.csv") as sheet:
        assert sum(bool(row["ours_mean"]) for row in csv.DictReader(sheet)) == 2 * len(MANY)
