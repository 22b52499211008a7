"""The runner of grids: every cell once, whoever dies, stops or shares the directory."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from fedswe.errors import FedsweError
from fedswe.experiment.configuration import dump
from fedswe.grid import runner
from fedswe.grid.runner import Executor, run_cells
from fedswe.grid.stack import divide
from fedswe.grid.store import RunStore
from fedswe.results.run_directory import RunDirectory
from tests.cli.command import wait_for
from tests.grid.grids import (
    LoggedStore,
    WaitingStore,
    assert_each_once,
    assert_same_results,
    random_moments,
    small_cells,
)

CELLS = small_cells()


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """The cells run in this process, undisturbed."""
    store = LoggedStore(tmp_path_factory.mktemp("reference"))
    run_cells(CELLS, store, Executor(jobs=1))
    return store


@pytest.mark.parametrize(
    ("cells", "workers", "sizes"), [(6, 2, [3, 3]), (40, 2, [8] * 5), (5, 2, [3, 2]), (1, 4, [1]), (0, 2, [])]
)
def test_cells_are_divided_evenly(cells, workers, sizes):
    assert [len(stack) for stack in divide(CELLS[:cells], workers)] == sizes


def test_a_gpu_gets_one_process_and_a_cpu_one_per_core():
    found = [Executor(jobs=jobs, device=device).workers for device in ("cuda", "cuda:1", "cpu") for jobs in (0, 3)]
    assert found == [1, 3, 1, 3, os.cpu_count(), 3]


@pytest.mark.parametrize(("on", "jobs"), [("slurm", 0), ("local:1", 0), ("local", -1)])
def test_executors_that_do_not_exist_are_one_line(on, jobs):
    with pytest.raises(FedsweError, match="must be"):
        Executor(on, jobs)


def test_workers_killed_at_random(tmp_path, reference):
    store = LoggedStore(tmp_path, random_moments(4))
    with Executor(jobs=2) as workers:
        run_cells(CELLS, store, workers)
    assert store.killed() >= 4
    assert_each_once(store, CELLS)
    assert_same_results(store, reference, CELLS)


def test_the_next_cells_are_run_by_the_same_workers(tmp_path):
    store, cells = LoggedStore(tmp_path), small_cells(8, rounds=2)
    with Executor(jobs=2) as workers:
        run_cells(cells[:4], store, workers)
        run_cells(cells[4:], store, workers)
    assert_each_once(store, cells)
    assert len(pids(store)) <= 2


def pids(store):
    return {int(pid) for _, _, pid in store.log()}


def test_a_worker_that_was_killed_while_it_had_no_stack_is_replaced(tmp_path):
    store, cells = LoggedStore(tmp_path), small_cells(4, rounds=2)
    with Executor(jobs=2) as workers:
        run_cells(cells[:2], store, workers)
        for pid in pids(store):
            os.kill(pid, signal.SIGKILL)
        run_cells(cells[2:], store, workers)
    assert_each_once(store, cells)


@pytest.mark.parametrize("kind", [lambda: Executor(jobs=1), lambda: Executor(jobs=2)])
def test_after_a_stop_other_cells_can_be_run(tmp_path, kind):
    signals = [signal.SIGTERM]  # one: a second would end this process

    def stop(done, total):
        if signals:
            os.kill(os.getpid(), signals.pop())

    with kind() as workers:
        with pytest.raises(KeyboardInterrupt):
            run_cells(small_cells(4, rounds=1000), RunStore(tmp_path / "a"), workers, stop)
        store = LoggedStore(tmp_path)
        run_cells(small_cells(4), store, workers)
    assert_each_once(store, small_cells(4))


def test_a_stack_whose_workers_always_die_ends_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_DEATHS", 2)
    store = LoggedStore(tmp_path)
    cells = small_cells(2, rounds=1_000_000)

    def kill(done, total):
        for pid in pids(store):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    with Executor(jobs=2) as workers, pytest.raises(FedsweError, match="2 times a worker died before cell"):
        run_cells(cells, store, workers, kill)
    assert store.running(cells) == []


def test_a_mistake_in_one_cell_stops_the_others_after_they_are_saved(tmp_path):
    cells = small_cells(4, rounds=1_000_000)
    damaged = tmp_path / "runs" / cells[3].name
    damaged.mkdir(parents=True)
    (damaged / "config.toml").write_text(dump(cells[3].experiment))
    (damaged / "checkpoint.safetensors").write_text("half")
    with Executor(jobs=2) as workers:
        with pytest.raises(FedsweError, match=r"checkpoint.safetensors is damaged"):
            run_cells(cells, WaitingStore(tmp_path, cells[0].name, cells[3].name), workers)
        (tmp_path / "next").mkdir()
        run_cells(small_cells(2), LoggedStore(tmp_path / "next"), workers)
    assert RunDirectory(tmp_path / "runs" / cells[1].name).load_checkpoint().round > 0
    assert RunStore(tmp_path).running(cells) == []


def test_a_finished_cell_of_a_stopped_stack_stays(tmp_path):
    """A short and a long run in one stack: the short one is finished although the stack is killed."""
    short, long = small_cells(1)[0], small_cells(2, rounds=1_000_000)[1]
    store = LoggedStore(tmp_path)

    def watch(done, total):
        if done > 200:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        run_cells([short, long], store, Executor(jobs=1), watch)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert [store.finished(cell) for cell in (short, long)] == [True, False]


def stopped_after(store, cells, rounds):
    """Run the cells with two processes, and stop by a signal after so many rounds."""
    asked = []

    def watch(done, total):
        if done >= rounds and not asked:  # a second signal, a second later, would end pytest
            asked.append(done)
            os.kill(os.getpid(), signal.SIGTERM)

    with Executor(jobs=2) as workers, pytest.raises(KeyboardInterrupt):
        run_cells(cells, store, workers, watch)


def test_stopped_and_continued(tmp_path, reference):
    store = LoggedStore(tmp_path)
    for rounds in (1, 300):
        stopped_after(store, CELLS, rounds)
        assert store.running(CELLS) == []
    assert not all(store.finished(cell) for cell in CELLS)
    seen = []
    with Executor(jobs=2) as workers:
        run_cells(CELLS, store, workers, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] < sum(cell.experiment.rounds for cell in CELLS)
    assert_each_once(store, CELLS)
    assert_same_results(store, reference, CELLS)


COMMAND = """
import sys
from pathlib import Path
from fedswe.grid.runner import Executor, run_cells
from tests.grid.grids import LoggedStore, small_cells

cells = small_cells()
print("ready", flush=True)
sys.stdin.readline()
run_cells(cells, LoggedStore(Path(sys.argv[1])), Executor(jobs=1))
"""


def test_two_commands_share_a_directory(tmp_path, reference):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", COMMAND, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    assert [one.stdout.readline() for one in both] == ["ready\n"] * 2
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    errors = [one.communicate(timeout=300)[1].splitlines() for one in both]
    assert [one.returncode for one in both] == [0, 0], errors
    assert errors == [[], []]
    store = LoggedStore(tmp_path)
    assert_each_once(store, CELLS)
    assert_same_results(store, reference, CELLS)


def test_asking_what_runs_takes_no_cell_from_a_worker(tmp_path):
    """`reproduce --status` beside a run."""
    store, (cell,) = RunStore(tmp_path), small_cells(1)
    with store.claim(cell) as granted:
        assert granted
        assert store.running([cell]) == [cell]
    child = os.fork()
    if child == 0:
        while True:
            store.running([cell])
    try:
        for _ in range(2000):
            with store.claim(cell) as granted:
                assert granted
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_cells_that_can_never_be_claimed_end_the_command(tmp_path, monkeypatch):
    """As on a file system whose locks are broken: it would go on for ever."""

    @contextmanager
    def refuse(*_):
        yield False

    monkeypatch.setattr(RunStore, "claim", refuse)
    with pytest.raises(FedsweError, match=r"cell0 could not be claimed, though no process has it \(cells left: 2\)"):
        run_cells(small_cells(2), RunStore(tmp_path), Executor(jobs=1))


def test_workers_end_with_their_command(tmp_path):
    child = os.fork()
    if child == 0:
        with Executor(jobs=2) as workers:
            run_cells(small_cells(4, rounds=1_000_000), LoggedStore(tmp_path), workers)
    store, cells = LoggedStore(tmp_path), small_cells(4, rounds=1_000_000)
    wait_for(lambda: len(store.running(cells)) == 4)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_for(lambda: not store.running(cells), seconds=20)
    assert not any(store.finished(cell) for cell in cells)


def test_a_worker_that_starts_after_its_command_was_killed_ends(tmp_path):
    """Its parent is another process from the beginning."""
    (tmp_path / "going").touch()
    place = os.getcwd(), sys.argv, {}, os.getppid()
    child = os.fork()
    if not child:
        runner._work([], {}, RunStore(tmp_path), tmp_path / "0", place)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
