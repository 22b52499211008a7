"""The same grid on Ray: actors that are killed, stopped and continued."""

import importlib.util
import os
import signal

import pytest

from fedswe.grid.runner import Executor, run_cells
from tests.grid.grids import LoggedStore, assert_each_once, assert_same_results, random_moments
from tests.grid.test_runner import CELLS, reference  # noqa: F401

pytestmark = [
    # It is imported when it is used: every worker that collects the tests would import it too.
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


def test_workers_killed_at_random_then_stopped_and_continued(tmp_path, reference):  # noqa: F811
    store = LoggedStore(tmp_path, random_moments(3))

    asked = []

    def stop(done, total):
        if store.killed() >= 2 and not asked:  # a second signal, a second later, would end pytest
            asked.append(done)
            os.kill(os.getpid(), signal.SIGTERM)

    with Executor("ray", jobs=2) as workers:
        assert workers.workers == 2
        with pytest.raises(KeyboardInterrupt):
            run_cells(CELLS, store, workers, stop)
        assert not all(store.finished(cell) for cell in CELLS)
        assert store.running(CELLS) == []
    with Executor("ray", jobs=2) as workers:
        run_cells(CELLS[::2], store, workers)
        run_cells(CELLS, store, workers)  # by the same actors: others would wait for their CPUs for ever
    assert store.killed() >= 3
    assert_each_once(store, CELLS)
    assert_same_results(store, reference, CELLS)
