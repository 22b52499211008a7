"""Whatever fails, the run finishes and computes exactly its algorithm on the merged reports."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedswe.deploy import ledger
from fedswe.deploy.audit.verify import verify
from fedswe.deploy.server_files import ServerFiles
from fedswe.experiment.experiment import Evaluate
from fedswe.results.model_file import Models
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import DELIVERED, DELIVERIES, quadratic
from tests.deploy.storm import Storm, fuse, in_memory


def check(folder, storm):
    """Exact replay; Proposition 1 on merged rounds; no client counted twice; no file left over."""
    result = verify(folder / "server")
    assert result.exact, result.failures
    assert result.replay.client_mean_difference < 1e-6
    assert result.rounds == storm.deployment.experiment.rounds
    echoes, last = Counter(), {}
    for entry in ledger.read(folder / "server" / ledger.FILE).entries:
        for client, since in entry.merged.items():
            echoes[client] += entry.t - since
            last[client] = entry.t
            assert echoes[client] == entry.t + 1
    assert {i: n - 1 for i, n in echoes.items()} == last
    names = {path.stem for path in (folder / "server" / "versions").iterdir()}
    assert names == {str(t) for t in last.values()}
    storm.server.release()
    return result


@pytest.mark.parametrize(("name", "delivery"), DELIVERED)
def test_every_algorithm_survives_a_storm(monkeypatch, name, delivery):
    with in_memory() as folder:
        seed = 8 if name == "f3ast" else 7  # seats are few: not every seed reaches every kind of fault
        storm = Storm(folder, quadratic(name, rounds=30, delivery=delivery, p=0.8), seed, monkeypatch).run()
        assert check(folder, storm).reports > 20
    assert sum(storm.faults.values()) >= 20
    assert {"lost", "late", "repeated", "arrived again", "client died", "server killed"} <= storm.faults.keys()
    assert any(fault.startswith("died") for fault in storm.faults)


def test_the_storm_reaches_every_kind_of_fault(monkeypatch):
    seen, reasons = Counter(), Counter()
    for seed in range(6):
        with in_memory() as folder, monkeypatch.context() as patch:
            storm = Storm(folder, quadratic("fedswe", rounds=30, p=0.9), seed, patch, rate=0.2).run()
            check(folder, storm)
            seen += storm.faults
            for entry in ledger.read(folder / "server" / ledger.FILE).entries:
                for why in entry.rejected.values():
                    reasons += Counter(why)
    places = ("commit", "state", "versions", "server", "client")
    assert {f"died {when} {where}" for when in ("before", "in", "after") for where in places} <= seen.keys()
    assert {"client state deleted", "client state cut", "client state garbage"} <= seen.keys()
    assert {"epoch", "round", "duplicate"} <= reasons.keys()


@pytest.mark.parametrize("seed", range(3))
def test_an_average_over_rounds_survives_a_storm(monkeypatch, seed):
    evaluate = Evaluate(model=["client_mean", "ema", "ema:of=client_mean", "window:4:of=client_mean"], ema_decay=0.5)
    with in_memory() as folder:
        deployment = quadratic("fedswe", rounds=30, p=0.9, trail=True, evaluate=evaluate)
        storm = Storm(folder, deployment, seed, monkeypatch, rate=0.2).run()
        check(folder, storm)
        assert any(fault.endswith("outputs") for fault in storm.faults)
        check_ema(folder / "server", 0.5)


def check_ema(folder, decay):
    """The saved average is that over the copies of all server models, and no other state of it is left."""
    files = ServerFiles(folder, ledger.read(folder / ledger.FILE).entries)
    ema = files.start(torch.zeros(1))
    rounds = len(ledger.read(folder / ledger.FILE).entries)
    for t in range(rounds):
        ema = torch.lerp(files.trail(t + 1), ema, decay)
    assert torch.equal(Models.read(folder / "model.safetensors").vectors["ema"], ema)
    assert [path.stem for path in (folder / "outputs").iterdir()] == [str(rounds)]


@pytest.mark.parametrize("fate", ["before", "in", "after"])
@pytest.mark.parametrize("name", ["fedswe", "mifa"])
def test_dying_once_at_any_durable_write_changes_only_which_clients_are_merged(monkeypatch, name, fate):
    """One run for each durable write of a whole run; all others are the same."""
    evaluate, struck = Evaluate(model=["server", "ema"], ema_decay=0.5), []
    deployment = quadratic(name, rounds=3, m=2, p=1.0, trail=True, evaluate=evaluate)
    for n in range(1000):
        with in_memory() as folder, monkeypatch.context() as patch:
            writes = []

            def strike(where, n=n, writes=writes):
                writes.append(where)
                return fate if len(writes) == n + 1 else None

            storm = Storm(folder, deployment, 0, patch, rate=0.0)
            fuse(patch, strike)
            storm.run()
            check(folder, storm)
            check_ema(folder / "server", 0.5)
        if len(writes) <= n:  # beyond the last write: nothing failed
            break
        struck.append(writes[n])
    places = {"server", "state", "outputs", "versions", "trail", "commit", "client" if name == "fedswe" else "rows"}
    assert set(struck) == places | {"trail-", "journal"}  # the client's
    assert struck.count("commit") == 4  # the start, and three rounds


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**20),
    name=st.sampled_from(sorted(ALGORITHMS)),
    delivery=st.sampled_from(DELIVERIES),
    rate=st.sampled_from([0.02, 0.1, 0.3]),
    m=st.integers(1, 4),
)
def test_any_storm(seed, name, delivery, rate, m):
    with in_memory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        deployment = quadratic(name, rounds=12, m=m, delivery=delivery, p=0.8)
        storm = Storm(folder, deployment, seed, monkeypatch, rate).run(steps_per_round=6)
        assert check(folder, storm).rounds == 12
