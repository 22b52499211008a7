"""Chains of transforms: the published server optimisers, torch's local ones, and where they are refused."""

import re
from functools import partial

import numpy as np
import pytest
import torch

from fedswe.algorithms import FedAvg, FedPBC, FedSWE, Scaffold
from fedswe.comparison.labels import labelled
from fedswe.core.footprint import footprint
from fedswe.core.local import Local
from fedswe.core.transforms import Adagrad, Adam, Clip, Momentum, Prox, Warmup, WeightDecay, Yogi
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import Experiment, assemble
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.laws.cases import STEPS, gradient, local_sgd

ROUNDS, M = 30, 6
PRESENT = problems.mask(ROUNDS, M)


def ends(kind, algorithm, local=None, rounds=ROUNDS):
    return problems.models(kind, algorithm, problems.quadratic(M), PRESENT, rounds, local)


def moved(step, local=local_sgd):
    """The models, moved in each round by step(Delta) of the mean progress Delta of those who are there."""
    models = [np.full(3, 0.3)]
    for t in range(ROUNDS):
        x, there = models[-1], np.flatnonzero(PRESENT[t])
        delta = [local(i, x, t) - x for i in there]
        models.append(x + step(np.mean(delta, axis=0)) if delta else x)
    return np.stack(models)


def fedopt(kind, lr, beta1, beta2, tau, initial):
    """Reddi and others 2021, Algorithm 2: Delta is the mean progress, v starts at `initial`, no bias correction."""
    m, v = np.zeros(3), np.full(3, initial)

    def step(delta):
        nonlocal m, v
        m = beta1 * m + (1 - beta1) * delta
        if kind == "adagrad":
            v = v + delta**2
        elif kind == "yogi":
            v = v - (1 - beta2) * delta**2 * np.sign(v - delta**2)
        else:
            v = beta2 * v + (1 - beta2) * delta**2
        return lr * m / (np.sqrt(v) + tau)

    return moved(step)


def fedavgm(lr, beta, warmup=1):
    """Hsu and others 2019: v = beta v + Delta, x = x + lr v. The rate grows over `warmup` rounds with reports."""
    v, n = np.zeros(3), 0

    def step(delta):
        nonlocal v, n
        v, n = beta * v + delta, n + 1
        return lr * min(1, n / warmup) * v

    return moved(step)


@pytest.mark.parametrize("kind", ["loop", "batched"])
@pytest.mark.parametrize(
    ("chain", "published"),
    [
        ((Momentum(0.7),), lambda: fedavgm(0.2, 0.7)),
        ((Momentum(0.7), Warmup(9)), lambda: fedavgm(0.2, 0.7, 9)),
        ((Adam(0.9, 0.99, 1e-3, correct_bias=False),), lambda: fedopt("adam", 0.2, 0.9, 0.99, 1e-3, 0.0)),
        ((Yogi(0.9, 0.99, 1e-3, 1e-6),), lambda: fedopt("yogi", 0.2, 0.9, 0.99, 1e-3, 1e-6)),
        ((Adagrad(1e-3, 1e-6),), lambda: fedopt("adagrad", 0.2, 0.0, 0.0, 1e-3, 1e-6)),
    ],
    ids=["fedavgm", "warm-up", "fedadam", "fedyogi", "fedadagrad"],
)
def test_server_chains_are_the_published_optimisers(chain, published, kind):
    want, found = published(), ends(kind, FedAvg(lr=0.2, chain=chain), Local(steps=STEPS, lr=0.05))
    assert np.ptp(want, axis=0).max() > 0.1
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-10)


def test_the_labels_of_published_optimisers():
    """`fedswe show fedavg` names them: the same chains as above, with the published defaults."""
    named = dict(re.findall(r"^ +(Fed\w+) +(fedavg:\S+)$", FedAvg.__doc__, re.MULTILINE))
    found = {name: labelled({}, label).algorithm for name, label in named.items()}
    assert found == {
        "FedAvgM": FedAvg(chain=(Momentum(0.9),)),
        "FedAdam": FedAvg(chain=(Adam(0.9, 0.99, 1e-3, correct_bias=False),)),
        "FedYogi": FedAvg(chain=(Yogi(0.9, 0.99, 1e-3, 1e-6),)),
        "FedAdagrad": FedAvg(chain=(Adagrad(1e-3, 1e-6),)),
    }
    (prox,) = re.findall(r"local\.chain=[\w:.]+", FedAvg.__doc__)
    assert load(None, [prox]).local.chain == (Prox(0.01),)


def test_fedprox():
    """Li and others 2020: the local objective has (mu/2) ||x - x^t||^2 added."""
    mu = 0.7
    want = moved(lambda delta: delta, lambda i, x, t: local_sgd(i, x, t, lambda g, y: g + mu * (y - x)))
    local = Local(steps=STEPS, lr=0.05, chain=(Prox(mu),))
    for kind in ("loop", "batched"):
        np.testing.assert_allclose(ends(kind, FedAvg(), local), want, rtol=1e-9, atol=1e-10)


OPTIMISERS = {
    "momentum": ((Momentum(0.9),), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    "nesterov": ((Momentum(0.9, True),), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)),
    "decay": ((WeightDecay(0.3),), lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.3)),
    "both": ((WeightDecay(0.3), Momentum(0.5)), lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.3, momentum=0.5)),
    "adam": ((Adam(0.8, 0.95, 1e-6),), lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6)),
    "adagrad": ((Adagrad(1e-3, 0.2),), lambda p: torch.optim.Adagrad(p, 0.05, initial_accumulator_value=0.2, eps=1e-3)),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_local_chains_are_torchs_optimisers(name):
    """One round of FedAvg over everybody: each client runs the optimiser anew from the server's model."""
    chain, make = OPTIMISERS[name]
    last = []
    for i in range(M):
        x = torch.full((3,), 0.3, dtype=torch.float64, requires_grad=True)
        optimiser = make([x])
        for step in range(STEPS):
            x.grad = torch.from_numpy(gradient(i, x.detach().numpy(), 0, step))
            optimiser.step()
        last.append(x.detach().numpy())
    everybody = np.ones((1, M), dtype=bool)
    local = Local(steps=STEPS, lr=0.05, schedule="constant", chain=chain)
    for kind in ("loop", "batched"):
        found = problems.models(kind, FedAvg(), problems.quadratic(M), everybody, local=local)[1]
        np.testing.assert_allclose(found, np.mean(last, axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("chain", [(), (Momentum(0.8),), (Clip(0.2), Adam(eps=1e-3)), (Prox(0.5), Yogi())], ids=str)
@pytest.mark.parametrize("model", ["softmax", "mlp", "cnn"])
def test_stacked_and_one_by_one_agree(model, chain):
    present = problems.mask(26, 6)[:5]
    local = Local(steps=3, batch_size=16, lr=0.02, chain=chain)
    one = problems.digits(6, model)
    runs = [problems.models(kind, FedSWE(k=2), one, present, local=local) for kind in ("loop", "batched")]
    assert np.abs(runs[0][-1] - runs[0][0]).max() > 1e-3
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-8, atol=1e-10)


def test_clip_is_short_for_a_chain():
    short, long = {"clip": 0.1}, {"chain": (Clip(0.1),)}
    for make in (partial(FedSWE, k=2), FedAvg):
        np.testing.assert_array_equal(*(ends("batched", make(**how), rounds=10) for how in (short, long)))
    np.testing.assert_array_equal(*(ends("loop", FedAvg(), Local(**how), 10) for how in (short, long)))


def test_an_identity_chain_changes_only_the_message():
    """Weight decay of 0 is the identity: start and progress are sent apart, and add up to the same model."""
    for name in ("fedswe", "fedavg", "mifa", "scaffold", "gfedavg"):
        rules = ALGORITHMS[name](lr=0.7), ALGORITHMS[name](lr=0.7, chain=(WeightDecay(0.0),))
        np.testing.assert_allclose(*(ends("batched", rule, rounds=20) for rule in rules), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("chain", "server", "up"),
    [((), 1000, 1000), ((Clip(1.0),), 1000, 2000), ((Momentum(),), 2000, 2000), ((Adam(),), 3001, 2000)],
)
def test_what_a_chain_costs(chain, server, up):
    kept = footprint(FedSWE(chain=chain), 1000)
    assert (kept.server, kept.up) == (server, up)
    assert footprint(FedAvg(chain=chain), 1000).up == 1000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedPBC(chain=(Momentum(),)), "fedpbc averages models"),
        (lambda: FedAvg(chain=(Prox(),)), "Prox has no meaning at the server: put it into local.chain"),
        (lambda: Experiment(algorithm=Scaffold(), local=Local(chain=(Momentum(),))), "local.chain may hold only clip"),
        (lambda: FedSWE(chain=("clip",)), "chain must be an instance of Transform, not 'clip'"),
        (lambda: Local(chain=Momentum()), "chain must be"),
        (lambda: Clip(0.0), "norm must be greater than 0"),
        (lambda: Adam(beta2=1.5), "beta2 must be less than 1"),
    ],
)
def test_chains_that_make_no_sense(make, message):
    with pytest.raises(FedsweError, match=message):
        make()


@pytest.mark.parametrize("name", ["scaffold", "amplified_scaffold", "mifa"])
def test_the_rate_of_a_cosine_is_never_zero(name):
    """SCAFFOLD and MIFA divide by it."""
    options = {"store": "delta_over_lr"} if name == "mifa" else {}
    local = Local(steps=STEPS, lr=0.05, schedule="cosine", decay_rounds=4)
    assert np.isfinite(ends("batched", ALGORITHMS[name](**options), local, 12)).all()


def test_schedules():
    def rates(**options):
        return [Local(lr=0.5, **options).lr_at(t) for t in (0, 5, 10, 20)]

    assert rates(schedule="constant") == [0.5] * 4
    np.testing.assert_allclose(rates(schedule="inverse_sqrt"), 0.5 / np.sqrt([1, 1.5, 2, 3]))
    last = 0.25 * (1 + np.cos(0.9 * np.pi))
    np.testing.assert_allclose(rates(schedule="cosine", decay_rounds=10), [0.5, 0.25, last, last], atol=1e-15)
    np.testing.assert_allclose(rates(schedule="step", decay_rounds=10, decay=0.2), [0.5, 0.5, 0.1, 0.02])
    assert assemble(Experiment(rounds=40, local=Local(schedule="cosine"))).local.decay_rounds == 40
    with pytest.raises(FedsweError, match="schedule=step needs decay_rounds"):
        Local(schedule="step")
