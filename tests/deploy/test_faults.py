"""Whatever fails, the run finishes and is exactly its algorithm on the reports that were merged."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedswe.algorithms import ALGORITHMS
from fedswe.deploy import ledger
from fedswe.deploy.audit import verify
from tests.deploy.parts import quadratic
from tests.deploy.storm import Storm, fuse, in_memory


def check(folder, storm):
    """Exact replay; Proposition 1 on merged rounds; nobody counted twice; nothing left over."""
    result = verify(folder / "server")
    assert result.exact, result
    assert result.client_mean_difference < 1e-6
    assert result.rounds == storm.plan.experiment.rounds
    echoes, last = Counter(), {}
    for entry in ledger.read(folder / "server" / ledger.FILE)[1]:
        for client, since in entry.merged.items():
            echoes[client] += entry.t - since
            last[client] = entry.t
            assert echoes[client] == entry.t + 1
    assert {i: n - 1 for i, n in echoes.items()} == last
    names = {path.stem for path in (folder / "server" / "versions").iterdir()}
    assert names == {str(t) for t in last.values()}
    storm.server.release()
    return result


@pytest.mark.parametrize("delivery", ["eager", "lazy"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_survives_a_storm(monkeypatch, name, delivery):
    with in_memory() as folder:
        storm = Storm(folder, quadratic(name, rounds=30, delivery=delivery, p=0.8), 7, monkeypatch).run()
        assert check(folder, storm).reports > 20
    assert sum(storm.faults.values()) >= 20
    assert {"lost", "late", "repeated", "heard again", "client died", "server killed"} <= storm.faults.keys()
    assert any(fault.startswith("died") for fault in storm.faults)


def test_the_storm_reaches_every_kind_of_fault(monkeypatch):
    seen, reasons = Counter(), Counter()
    for seed in range(6):
        with in_memory() as folder, monkeypatch.context() as patch:
            storm = Storm(folder, quadratic("fedswe", rounds=30, p=0.9), seed, patch, rate=0.2).run()
            check(folder, storm)
            seen += storm.faults
            for entry in ledger.read(folder / "server" / ledger.FILE)[1]:
                for why in entry.rejected.values():
                    reasons += Counter(why)
    places = ("commit", "state", "versions", "server", "client")
    assert {f"died {when} {where}" for when in ("before", "in", "after") for where in places} <= seen.keys()
    assert {"client state deleted", "client state cut", "client state garbage"} <= seen.keys()
    assert {"epoch", "round", "duplicate"} <= reasons.keys()


@pytest.mark.parametrize("fate", ["before", "in", "after"])
@pytest.mark.parametrize("name", ["fedswe", "mifa"])
def test_dying_once_at_any_durable_write_changes_nothing_but_who_was_merged(monkeypatch, name, fate):
    """One run for each durable write of a whole run; all others are the same."""
    plan, struck = quadratic(name, rounds=3, m=2, p=1.0), []
    for n in range(1000):
        with in_memory() as folder, monkeypatch.context() as patch:
            writes = []

            def strike(where, n=n, writes=writes):
                writes.append(where)
                return fate if len(writes) == n + 1 else None

            storm = Storm(folder, plan, 0, patch, rate=0.0)
            fuse(patch, strike)
            storm.run()
            check(folder, storm)
        if len(writes) <= n:  # beyond the last write: nothing failed
            break
        struck.append(writes[n])
    assert {"server", "state", "versions", "commit"} | ({"client"} if name == "fedswe" else {"rows"}) == set(struck)
    assert struck.count("commit") == 3


@settings(max_examples=120)
@given(
    seed=st.integers(0, 2**20),
    name=st.sampled_from(sorted(ALGORITHMS)),
    delivery=st.sampled_from(["eager", "lazy"]),
    rate=st.sampled_from([0.02, 0.1, 0.3]),
    m=st.integers(1, 4),
)
def test_any_storm(seed, name, delivery, rate, m):
    with in_memory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        plan = quadratic(name, rounds=12, m=m, delivery=delivery, p=0.8)
        storm = Storm(folder, plan, seed, monkeypatch, rate).run(steps_per_round=6)
        assert check(folder, storm).rounds == 12
