"""Loop = batched = the published loop, for every algorithm."""

import numpy as np
import pytest
import torch

from fedswe.core import keys
from fedswe.core.local import Local
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.laws.cases import CASES, STEPS, local_lr, local_sgd, make
from tests.laws.literal import LITERAL

ROUNDS, M = 40, 8
LOCAL = Local(steps=STEPS, batch_size=16, lr=0.05)


def literal_trajectory(case):
    """The restated loop on the quadratic of the workbench, its local SGD written out in numpy."""
    name, parameters = CASES[case]
    present = problems.mask(ROUNDS, M)

    def local(i, start, t, drift=None):
        return local_sgd(i, start, t, lambda g, x: g if drift is None else g + drift)

    def tie_break(t):
        return keys.uniform(problems.SEED, "seats", t, torch.arange(M)).numpy()

    probs = problems.probabilities(*present.shape)
    more = {
        "fedavg_known": {"probs": probs},
        "fedstale_known": {"probs": probs},
        "f3ast": {"tie_break": tie_break},
        "fedlaavg": {"tie_break": tie_break, "local_lr": local_lr},
        "mifa": {"local_lr": local_lr},
        "scaffold": {"local_lr": local_lr, "steps": STEPS},
        "amplified_scaffold": {"local_lr": local_lr, "steps": STEPS},
        "fednova": {"steps": STEPS},
        "focus": {"local_lr": local_lr, "steps": STEPS},
        "ghbm": {"local_lr": local_lr, "steps": STEPS},
        "local_ghbm": {"local_lr": local_lr, "steps": STEPS},
    }
    x = np.full(3, 0.3)
    return np.stack([x, *LITERAL[name](x, present, local, **parameters, **more.get(name, {}))])


def test_every_algorithm_is_restated_and_has_a_case():
    """A new algorithm needs a row in cases.py and its published loop in literal.py."""
    assert {name for name, _ in CASES.values()} == set(ALGORITHMS) == set(LITERAL)


@pytest.mark.parametrize("case", [case for case in CASES if "chain" not in CASES[case][1]])  # these: test_chains.py
def test_both_engines_equal_the_published_loop(case):
    want = literal_trajectory(case)
    assert np.ptp(want, axis=0).max() > 0.05  # the model moved, so agreement means something
    for kind in ("loop", "batched"):
        found = problems.models(kind, make(case), problems.quadratic(M), problems.mask(ROUNDS, M), local=LOCAL)
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-10)])
@pytest.mark.parametrize("case", CASES)
def test_batched_equals_loop_on_real_data(case, dtype, tolerance):
    rounds, m = 9, 12  # one of them is empty; the quadratic has as many as the slowest rule needs
    present = problems.mask(rounds + 20, m)[:rounds]
    problem = problems.digits(m, dtype=dtype)
    runs = {kind: problems.models(kind, make(case), problem, present, local=LOCAL) for kind in ("loop", "batched")}
    scale = np.linalg.norm(runs["loop"], axis=1)
    gap = np.linalg.norm(runs["loop"] - runs["batched"], axis=1) / scale
    assert np.linalg.norm(runs["loop"][-1] - runs["loop"][0]) > 1e-2
    assert gap.max() <= tolerance
