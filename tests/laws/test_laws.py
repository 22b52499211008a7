"""What every algorithm obeys: purity, permutation, absence, empty rounds, and the identities of the theory."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedswe.algorithms import FedAWE, FedSWE
from fedswe.availability.mask import Rows
from fedswe.core.records import Nothing
from fedswe.engine import laws
from fedswe.engine.laws import LAWS
from fedswe.engine.outputs import AugmentedMean
from fedswe.errors import FedsweError
from fedswe.tasks import Quadratic
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.laws.cases import CASES, make
from tests.problems import ENGINES

M, ROUNDS = 8, 40


@pytest.mark.parametrize("case", CASES)
def test_permuting_clients_changes_nothing(case):
    if case in ("f3ast", "fedlaavg budget"):
        pytest.skip("with a budget, ties are drawn by client number; see test_f3ast_seats")
    present = problems.mask(ROUNDS, M)
    order = np.random.default_rng(3).permutation(M)
    u, a = np.array(problems.centers(M)), np.array(problems.curvatures(M))
    ends = []
    for who in (np.arange(M), order):
        problem = Quadratic(centers=u[who].tolist(), curvature=a[who].tolist(), start=0.3).build(problems.setting())
        rows = Rows(present[:, who], problems.probabilities(ROUNDS, M)[:, who])
        ends.append(problems.models("batched", make(case), problem, rows, ROUNDS))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("case", CASES)
def test_every_law_holds_for_every_algorithm(case, law):
    assert law(make(case)) is None


# What clients keep adds up to 0, or to m times the model: they may not leave, although no other m is kept.
BALANCED = ("mimic", "area")


@pytest.mark.parametrize("case", CASES)
def test_a_declaration_of_more_would_be_found(case, monkeypatch):
    """Each algorithm declares all that holds for it: where its state may be kept, whether clients may leave."""
    rule, declared = make(case), (make(case).home == "client", make(case).members_change)
    monkeypatch.setattr(type(rule), "home", "client")
    monkeypatch.setattr(type(rule), "members_change", True)
    found = set()
    for law in (laws.forgetting, laws.pure):
        with suppress(FedsweError):
            law(rule)
            found.add(law)
    forgets, free = laws.forgetting in found, laws.pure in found
    assert (forgets, free) == declared or (forgets == declared[0] and free and case in BALANCED)


def test_only_fedpbc_trains_while_absent():
    assert [name for name, cls in ALGORITHMS.items() if cls.trains_while_absent] == ["fedpbc"]


@pytest.mark.parametrize("case", CASES)
def test_nothing_moves_before_somebody_came(case):
    """Not even from memory or by amplification."""
    models = problems.models("batched", make(case), problems.quadratic(M), np.zeros((20, M), dtype=bool))
    np.testing.assert_allclose(models, models[:1].repeat(21, 0), rtol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_an_empty_round_after_training(case):
    present = np.ones((6, M), dtype=bool)
    present[4] = False
    models = problems.models("batched", make(case), problems.quadratic(M), present)
    moved = np.abs(models[5] - models[4]).max()
    uses_memory = case.startswith(("mifa", "fedlaavg")) or case == "fedvarp memory"
    assert np.isfinite(models).all()
    assert moved > 1e-4 if uses_memory else moved < 1e-15


@pytest.mark.parametrize("case", CASES)
def test_one_client_and_one_that_never_comes(case):
    """With one client, with gaps, and with two clients of which one is never there, the models stay finite and move."""
    alone = problems.mask(30, 8)[:, [4]]
    beside = np.hstack([alone, np.zeros_like(alone)])
    for present in (alone, beside):
        engine = problems.engine("batched", make(case), problems.quadratic(present.shape[1]), present)
        models = problems.trajectory(engine, 30)
        assert np.isfinite(models).all()
        assert np.isfinite(engine.client_mean().numpy()).all()
        waits = "wait" in case and present is beside  # MIFA waits for every client
        assert (np.ptp(models, axis=0).max() > 1e-3) != waits


@pytest.mark.parametrize("kind", ENGINES)
def test_full_availability_makes_them_one(kind):
    everybody = np.ones((5, M), dtype=bool)
    ones, trajectories = Rows(everybody, np.ones((1, M))), {}
    algorithms = (
        "fedswe", "fedawe", "fedavg", "fedavg_all", "fedavg_known", "fedau", "mifa", "fedvarp", "fedpbc", "echo",
        "debiased_fedavg", "fedstale", "fedstale_known", "fedlaavg", "mimic", "fedasync", "fedbuff", "ace", "ca2fl",
    )  # fmt: skip
    more = {"fedasync": {"alpha": 1.0}, "fedbuff": {"buffer": M}, "fedswe": {"k": 0}}
    for name in algorithms:
        algorithm = ALGORITHMS[name](lr=0.7, **more.get(name, {}))
        trajectories[name] = problems.models(kind, algorithm, problems.quadratic(M), ones, 5)
    for name, models in trajectories.items():
        np.testing.assert_allclose(models, trajectories["fedavg"], rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("k", [1, 3])
def test_fedswe_is_fedawe_with_k_idle_clients_who_are_always_there(k):
    present = problems.mask(ROUNDS, M)
    u, a = problems.centers(M), problems.curvatures(M)
    plain = problems.engine("batched", FedSWE(lr=0.8, k=k), problems.quadratic(M), present)
    task = Quadratic(centers=u + [[9.0] * 3] * k, curvature=a + [0.0] * k, start=0.3)
    noise = problems.quadratic(M)
    augmented = task.build(problems.setting())
    crowd = Rows(np.hstack([present, np.ones((ROUNDS, k), dtype=bool)]), np.ones((1, M + k)))

    def draw(clients, t, steps, batch_size):  # the real clients' noisy gradients, none for the virtual ones
        real = clients.clamp(max=M - 1)
        virtual = (clients >= M)[:, None]
        pulls = noise.draw(real, t, steps, batch_size)
        return [replace(p, curvature=p.curvature * ~virtual, noise=p.noise * ~virtual) for p in pulls]

    augmented.draw = draw
    idle = problems.engine("batched", FedAWE(lr=0.8), augmented, crowd)
    np.testing.assert_allclose(
        problems.trajectory(plain, ROUNDS), problems.trajectory(idle, ROUNDS), rtol=1e-10, atol=1e-12
    )
    augmented_mean = AugmentedMean().model(Nothing(), plain).numpy()
    np.testing.assert_allclose(augmented_mean, idle.client_mean().numpy(), rtol=1e-10)


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=30))
def test_echoes_equalise_the_number_of_innovations(rows):
    """Proposition 1: if i is there in round R-1, its echo factors up to then add up to R."""
    present = np.array(rows)
    engine = problems.engine("batched", FedSWE(k=2), problems.quadratic(5), present)
    sums = np.zeros(5, dtype=int)
    for t in range(len(present)):
        who = np.flatnonzero(present[t])
        sums[who] += engine.step().echoes
        assert (sums[who] == t + 1).all()
    np.testing.assert_array_equal(sums, engine.last + 1)


def test_fedswe_rows_are_shared():
    """m clients need as many rows as there are distinct rounds in which somebody was last there."""
    m, rounds = 200, 12
    present = np.random.default_rng(0).random((rounds, m)) < 0.3
    engine = problems.engine("batched", FedSWE(k=10), problems.quadratic(m), present)
    for _ in range(rounds):
        engine.step()
    assert np.count_nonzero(engine.rows.uses) == len(np.unique(engine.last))
    assert len(engine.rows.table) <= 2 * rounds + 2


@pytest.mark.parametrize("seed", range(3))
def test_f3ast_seats(seed):
    """At most `budget` report, all of them available, and nobody seated had a larger rate than one left standing."""
    budget, m, rounds, beta = 3, 12, 60, 0.05
    algorithm = ALGORITHMS["f3ast"](beta=beta, budget=budget, initial_rate=0.5)
    present = np.random.default_rng(seed).random((rounds, m)) < 0.5
    engine = problems.engine("batched", algorithm, problems.quadratic(m), present)
    rate = np.full(m, 0.5)
    for t in range(rounds):
        who = engine.step()
        seated = engine.last == t
        assert who.reported == seated.sum() == min(budget, present[t].sum())
        assert (seated <= present[t]).all()
        standing = present[t] & ~seated
        if standing.any():
            assert rate[seated].max() <= rate[standing].min() + beta / 1000  # rates this close tie
        rate = (1 - beta) * rate + beta * seated
