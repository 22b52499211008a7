"""Nodes known by their keys, over TLS: one is killed, one cannot start, and the supervisor is killed too."""

import pytest

from fedswe.deploy.audit.verify import verify
from tests.deploy.federation import Federation

pytestmark = pytest.mark.flower


def test_node_keys_and_a_killed_supervisor(tmp_path, monkeypatch):
    """Flower refuses the key of a killed SuperNode for a minute: the rounds go on without it, and it comes back.

    The key of client 2 is damaged: its SuperNode ends after every start.
    """
    deploy = {"delivery": "lazy", "min_clients": 1, "deadline": 20.0}
    with Federation(tmp_path, 3, tls=True, rounds=40, deploy=deploy) as fed:
        private = [path for path in (fed.app / "keys").iterdir() if path.suffix == ".key"]
        assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
        (fed.app / "keys" / "client-2.key").write_text("damaged")
        fed.close_gate(1, 2)
        fed.up()
        fed.until(lambda: fed.training(1, 2), "training of client 1")
        fed.supernode(1).kill()
        fed.open_gate(1, 2)
        with fed.slow(0):
            fed.until(lambda: any(1 in entry.merged for entry in fed.entries()[3:]), "return of client 1", 300)
        entries = fed.entries()
        assert entries[2].merged.keys() == {0}
        back = next(entry for entry in entries[3:] if 1 in entry.merged)
        assert back.merged[1] == 1
        assert "https://127.0.0.1" in fed.said()
        assert "ended     client-2 (exit code 2, error: the SuperNode has ended (exit code 1)" in fed.said()
        assert {client for entry in entries for client in entry.merged} == {0, 1}

        # SIGKILL of the supervisor: what it has started lives on, until the next one comes
        fed.process.kill()
        fed.process.wait()
        orphans = fed.alive()
        assert orphans
        committed = len(fed.entries())
        fed.up(f"rounds={committed + 8}")  # the orphans may still commit some rounds
        fed.until(lambda: not set(orphans) & set(fed.alive()), "end of the orphans")
        assert fed.end() == 0
        assert fed.alive() == []
        fed.find_task(monkeypatch)
        assert verify(fed.run).exact
        assert set(fed.entries()[-1].merged) == {0, 1}
