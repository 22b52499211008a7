"""A small workbench: problems, masks and engines the laws are checked on."""

import numpy as np
import torch

from fedswe.availability.mask import Rows
from fedswe.core.local import Local
from fedswe.engine.batched import BatchedEngine
from fedswe.engine.loop import LoopEngine
from fedswe.tasks import Digits, Quadratic
from fedswe.tasks.problem import Setting

SEED = 5
ENGINES = {"batched": BatchedEngine, "loop": LoopEngine}


def setting(dtype=torch.float64):
    return Setting(SEED, dtype, torch.device("cpu"))


def centers(m, d=3):
    return np.random.default_rng(11).normal(size=(m, d)).tolist()


def curvatures(m):
    return np.random.default_rng(12).uniform(0.5, 1.5, size=m).tolist()


def quadratic(m=8, d=3, noise=0.1, dtype=torch.float64):
    task = Quadratic(centers=centers(m, d), curvature=curvatures(m), start=0.3, noise=noise)
    return task.build(setting(dtype))


def digits(m=12, model="softmax", dtype=torch.float64, alpha=0.5):
    return Digits(clients=m, alpha=alpha, model=model).build(setting(dtype))


def mask(rounds=40, m=8, seed=1, everybody_last=True):
    """Random availability with unequal rates, two empty rounds and one client that stays away for long."""
    rng = np.random.default_rng(seed)
    rate = np.linspace(0.15, 0.9, m)
    present = rng.random((rounds, m)) < rate
    present[[5, 21]] = False
    present[3:28, 2] = False
    if everybody_last:
        present[-1] = True
    return present


def probabilities(rounds, m):
    return np.broadcast_to(np.linspace(0.15, 0.9, m), (rounds, m)).copy()


def schedule(present):
    return Rows(present, probabilities(*present.shape))


def engine(kind, algorithm, problem, present, local=None, seed=SEED):
    """With a schedule, or a mask of who is present in each round."""
    rows = present if isinstance(present, Rows) else schedule(present)
    return ENGINES[kind](algorithm, problem, rows, local or Local(steps=4, batch_size=16, lr=0.05), seed)


def models(kind, algorithm, problem, present, rounds=None, local=None):
    """The server models x^0 ... x^T of an engine; without `rounds`, in all those of the mask."""
    return trajectory(engine(kind, algorithm, problem, present, local), len(present) if rounds is None else rounds)


def trajectory(eng, rounds):
    """The server models x^0 ... x^T as float64."""
    models = [eng.server_model().double().numpy().copy()]
    for _ in range(rounds):
        eng.step()
        models.append(eng.server_model().double().numpy().copy())
    return np.stack(models)
