"""Keys that change while a trial runs and between trials, with real processes."""

import json
import os
import subprocess
import sys

import pytest

from fedswe.deploy.audit.verify import verify
from tests.deploy.federation import Federation

pytestmark = pytest.mark.campaign


def keys(*words):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "fedswe", "deploy", "keys", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def statuses(app):
    rows = json.loads(keys("list", app, "--json"))["keys"]
    return [(row["client"], row["status"]) for row in rows]


def test_rotate_and_revoke(tmp_path, monkeypatch):
    deploy = {"delivery": "lazy", "min_clients": 1, "deadline": 40.0}
    with Federation(tmp_path, 2, tls=True, rounds=60, deploy=deploy) as fed:
        fed.up()
        fed.until_round(1)
        assert statuses(fed.app) == [(0, "online"), (1, "online")]

        # While the trial runs: the old key is refused, and the new one is of no client until the next submission.
        said = keys("rotate", fed.app, 1)
        assert "1 keys added, client 1; 1 removed" in said
        log = fed.run / "server.log"
        fed.until(lambda: log.is_file() and "is no client of this run" in log.read_text(), "the new node in the log")
        committed = len(fed.entries())
        fed.until_round(committed + 2)
        assert [set(entry.merged) for entry in fed.entries()[committed + 1 :]] == [{0}]
        assert log.read_text().count("is no client of this run") == 1
        fed.interrupt()
        assert fed.end() == 130

        # After `up` the client takes part again.
        committed = len(fed.entries())
        fed.up()
        fed.until(lambda: any(1 in entry.merged for entry in fed.entries()[committed:]), "return of client 1", 300)
        said = keys("revoke", fed.app, 0)
        assert "0 keys added; 1 removed" in said
        assert statuses(fed.app) == [(0, "revoked"), (1, "online")]
        committed = len(fed.entries())
        fed.until_round(committed + 2)
        assert set(fed.entries()[committed + 1].merged) == {1}
        fed.interrupt()
        assert fed.end() == 130
        fed.find_task(monkeypatch)
        assert verify(fed.run).exact
