"""The store: nothing is lost and nothing is half, whenever the server is killed."""

import os
import shutil
import signal
import sqlite3
import time
import traceback
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from flwr.app import Array

from fedswe.errors import FedsweError
from fedswe.flower import Strategy
from fedswe.flower import store as module
from fedswe.flower.replay import replay
from fedswe.flower.store import Store
from tests import problems
from tests.flower.apps import arrays, client_app
from tests.flower.grid import LocalGrid
from tests.flower.test_parity import M, federated

RULE = "fedswe:k=3"


class Killed(sqlite3.Connection):
    """A database whose process is killed before its n-th statement."""

    left = 10**9

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.set_trace_callback(self._count)

    def _count(self, statement):
        Killed.left -= 1
        if not Killed.left:
            os.kill(os.getpid(), signal.SIGKILL)


def in_child(run, statements, seconds):
    """How something ended in a process of its own that is killed before a statement, or after some seconds."""
    child = os.fork()
    if not child:
        try:
            Killed.left = statements
            run()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(3)
    if seconds:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("large", [module.LARGE, 16], ids=["blobs", "files"])
@pytest.mark.parametrize("rule", [RULE, "mifa"])
def test_kills_lose_nothing(rule, large, problem, tmp_path, monkeypatch):
    """50 kills before a statement and 5 at any time, for each of two rules and two kinds of tensors."""
    monkeypatch.setattr(module, "LARGE", large)
    connect, random = sqlite3.connect, np.random.default_rng(8)
    monkeypatch.setattr(module.sqlite3, "connect", lambda *a, **k: connect(*a, factory=Killed, **k))
    path, rounds, done = tmp_path / "f.db", 200, 0
    mask = problems.mask(rounds, M)
    run = partial(federated, rule, problem, rounds, mask=mask, store=path, keep_reports=True)
    for kill in range(55):
        left, seconds = (int(random.integers(1, 120)), 0.0) if kill < 50 else (10**9, random.uniform(0.01, 0.2))
        assert in_child(run, left, seconds) in (0, -signal.SIGKILL)
        with closing(Store(path, new=True)) as store:
            before, done = done, len(store.rounds())
        assert before <= done
    assert done > 10
    np.testing.assert_array_equal(run()[-1], federated(rule, problem, rounds, mask=mask)[-1])
    assert replay(path) == (rounds, int(mask.sum()), "")


def test_a_second_server_is_refused(tmp_path):
    first = Store(tmp_path / "f.db", new=True)
    with pytest.raises(FedsweError, match="in use by another server"):
        Store(tmp_path / "f.db")
    first.close()
    Store(tmp_path / "f.db").close()


def test_the_store_of_another_federation_is_refused(problem, tmp_path):
    federated(RULE, problem, 2, store=tmp_path / "f.db")
    with pytest.raises(FedsweError, match="other rule: fedswe:k=3 there, fedavg here"):
        federated("fedavg", problem, 3, store=tmp_path / "f.db")
    with pytest.raises(FedsweError, match="other serve"):
        federated(RULE, problem, 3, store=tmp_path / "f.db", serve="client_mean")
    with pytest.raises(FedsweError, match="other arrays"):
        federated(RULE, problems.quadratic(M, d=6), 3, store=tmp_path / "f.db")
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE other (x)")
    with pytest.raises(FedsweError, match="of another program"):
        federated(RULE, problem, 3, store=tmp_path / "other.db")
    (tmp_path / "text.db").write_text("a text" * 100)
    with pytest.raises(FedsweError, match="not a store of fedswe"):
        federated(RULE, problem, 3, store=tmp_path / "text.db")


def test_rollback_gives_the_same_rounds_again(problem, tmp_path):
    path = tmp_path / "f.db"
    straight = federated(RULE, problem, 30, store=path)
    with closing(Store(path)) as store:
        with pytest.raises(FedsweError, match="--to must be a round of 20 to 30"):
            store.rollback(19)
        store.rollback(23)
        assert [row["round"] for row in store.rounds()] == list(range(1, 24))
    np.testing.assert_array_equal(federated(RULE, problem, 30, store=path)[-7:], straight[-7:])


def test_a_copy_is_a_backup(problem, tmp_path):
    straight = federated(RULE, problem, 12)
    federated(RULE, problem, 6, store=tmp_path / "f.db")
    shutil.copy(tmp_path / "f.db", tmp_path / "copy.db")
    np.testing.assert_array_equal(federated(RULE, problem, 12, store=tmp_path / "copy.db")[-1], straight[-1])


@pytest.mark.parametrize("large", [module.LARGE, 16], ids=["blobs", "files"])
def test_models_that_no_client_holds_are_deleted(large, problem, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGE", large)
    monkeypatch.setattr(module, "ROUNDS_KEPT", 1)
    federated(RULE, problem, 40, store=tmp_path / "f.db")
    with closing(sqlite3.connect(tmp_path / "f.db")) as db:
        kept = {version for (version,) in db.execute("SELECT round FROM model")}
    held = {max(np.flatnonzero(column), default=-1) + 1 for column in problems.mask(39, M, everybody_last=False).T}
    assert kept == {0, 39, 40} | held
    assert len(list(tmp_path.glob("f.db.tensors/*"))) == (len(kept) if large == 16 else 0)


def test_replay_finds_a_changed_report(problem, tmp_path):
    path = tmp_path / "f.db"
    federated(RULE, problem, 10, store=path, keep_reports=True)
    assert replay(path)[::2] == (10, "")
    with sqlite3.connect(path) as db:
        name, packed = db.execute("SELECT name, tensors FROM report WHERE round = 4").fetchone()
        changed = packed[:-1] + bytes([packed[-1] ^ 1])
        db.execute("UPDATE report SET tensors = ? WHERE round = 4 AND name = ?", (changed, name))
    assert replay(path)[::2] == (3, "round 4: its reports give another model than the stored one")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM report WHERE round = 2 AND name = ?", (name,))
        db.execute("DELETE FROM report WHERE round = 3")
    assert "not those that were merged" in replay(path)[2]


@pytest.mark.parametrize(
    ("rule", "row", "what"),
    [
        ("mifa", "client WHERE name = '3' AND round = 10", "client 3"),
        ("mifa", "server WHERE round = 10", "the server"),
        (RULE, "model WHERE round = (SELECT max(holds) FROM client WHERE name = '2')", "the model of client 2"),
    ],
)
def test_replay_finds_a_changed_state(rule, row, what, problem, tmp_path):
    federated(rule, problem, 10, store=tmp_path / "f.db", keep_reports=True)
    table, place = row.split(" WHERE ", 1)
    with sqlite3.connect(tmp_path / "f.db") as db:
        (packed,) = db.execute(f"SELECT tensors FROM {row}").fetchone()
        db.execute(f"UPDATE {table} SET tensors = ? WHERE {place}", (packed[:-1] + bytes([packed[-1] ^ 1]),))
    found = replay(tmp_path / "f.db")
    assert found[0] == 10
    assert found[2].startswith(f"what is stored of {what}")


def test_arrays_that_are_not_trained_are_those_of_the_store(problem, tmp_path):
    ends = []
    for number, rounds in ((5, 2), (6, 3)):
        start, grid = arrays(problem.start), LocalGrid(client_app(problem), M)
        start["count"] = Array(np.array([number]))
        made = Strategy(RULE, store=tmp_path / "f.db", fraction_evaluate=0.0)
        ends.append(made.start(grid, start, rounds).arrays["count"].numpy().tolist())
    assert ends == [[5], [5]]
