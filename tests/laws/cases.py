"""One table of algorithms: every law holds for every row. And local training, written out in numpy."""

from functools import cache

import numpy as np
import torch

from fedswe.core import keys
from fedswe.core.transforms import Adagrad, Adam, Clip, Momentum, WeightDecay, Yogi
from tests import problems
from tests.algorithms import ALGORITHMS

# name of the row -> (registry name, hyper-parameters); lr is not 1, so that forgetting it shows
CASES = {
    "fedswe": ("fedswe", {"lr": 0.8, "k": 5.0}),
    "fedswe real k": ("fedswe", {"lr": 0.8, "k": 0.5}),
    "fedswe clip": ("fedswe", {"lr": 0.8, "k": 2.0, "clip": 0.2}),
    "fedswe echo cap": ("fedswe_variant", {"lr": 0.8, "k": 2.0, "echo_cap": 3.0, "progress_over": "all"}),
    "fedswe active progress": ("fedswe_variant", {"lr": 0.8, "k": 2.0, "progress_over": "active"}),
    "fedswe active progress, clip": ("fedswe_variant", {"lr": 0.8, "k": 2.0, "progress_over": "active", "clip": 0.2}),
    "fedswe quantile": (
        "bounded_fedswe",
        {"lr": 0.8, "k": 2.0, "quantile": 0.8, "bound_rate": 0.5, "progress_over": "all"},
    ),
    "fedswe quantile, active progress, clip": (
        "bounded_fedswe",
        {"lr": 0.8, "k": 2.0, "quantile": 0.8, "bound_rate": 0.5, "progress_over": "active", "clip": 0.2},
    ),
    "fedawe": ("fedawe", {"lr": 0.8}),
    "fedawe clip": ("fedawe", {"lr": 0.8, "clip": 0.2}),
    "fedavg": ("fedavg", {"lr": 0.8}),
    "fednova": ("fednova", {"lr": 0.8}),
    "fedavg clip": ("fedavg", {"lr": 0.8, "clip": 0.2}),
    "fedavg_all": ("fedavg_all", {"lr": 0.8}),
    "fedavg_known": ("fedavg_known", {"lr": 0.8}),
    "gfedavg": ("gfedavg", {"lr": 0.8, "amplification": 2.0, "period": 7}),
    "fedau": ("fedau", {"lr": 0.8, "cutoff": 6}),
    "interval_weights": ("interval_weights", {"lr": 0.8, "power": 0.7, "cutoff": 6}),
    "interval_weights, bounded": ("interval_weights", {"lr": 0.8, "power": 1.0, "cutoff": 6, "least": 0.9}),
    "fedexp": ("fedexp", {"lr": 0.8, "longest": 3.0}),
    "interval_extrapolation": ("interval_extrapolation", {"lr": 0.8, "power": 0.7, "cutoff": 6, "longest": 3.0}),
    "interval_extrapolation, unbounded": ("interval_extrapolation", {"cutoff": 6, "least": 0.0}),
    "keel": ("keel", {"lr": 0.8, "power": 0.7, "cutoff": 6, "longest": 3.0, "steady": 0.6, "recent": 2.0}),
    "keel, plain mean": ("keel", {"cutoff": 6, "recent": 0.0}),
    "decayed_memory": ("decayed_memory", {"lr": 0.8, "decay": 0.8, "power": 0.7, "cutoff": 6}),
    "decayed_memory, this round only": ("decayed_memory", {"lr": 0.8, "decay": 0.0, "cutoff": 6}),
    "f3ast": ("f3ast", {"lr": 0.8, "beta": 0.05, "budget": 3, "initial_rate": 0.7}),
    "f3ast no budget": ("f3ast", {"lr": 0.8, "beta": 0.05, "budget": 0, "initial_rate": 0.7}),
    "mifa": ("mifa", {"lr": 0.8}),
    "mifa over lr": ("mifa", {"lr": 0.8, "store": "delta_over_lr"}),
    "mifa wait": ("mifa", {"lr": 0.8, "start": "wait"}),
    "mifa wait over lr": ("mifa", {"lr": 0.8, "start": "wait", "store": "delta_over_lr"}),
    "fedvarp": ("fedvarp", {"lr": 0.8}),
    "fedvarp memory": ("fedvarp", {"lr": 0.8, "empty": "memory"}),
    "scaffold": ("scaffold", {"lr": 0.8}),
    "amplified_scaffold": ("amplified_scaffold", {"lr": 0.8, "amplification": 1.3, "period": 7}),
    "fedpbc": ("fedpbc", {"lr": 0.8}),
    "echo": ("echo", {"lr": 0.8}),
    "echo cap": ("echo", {"lr": 0.8, "cap": 3.0}),
    "debiased_fedavg": ("debiased_fedavg", {"lr": 0.8}),
    "fedstale": ("fedstale", {"lr": 0.8, "beta": 0.7, "cutoff": 6}),
    "fedstale_known": ("fedstale_known", {"lr": 0.8, "beta": 0.3}),
    "fedlaavg": ("fedlaavg", {"lr": 0.8}),
    "fedlaavg budget": ("fedlaavg", {"lr": 0.8, "budget": 3}),
    "mimic": ("mimic", {"lr": 0.8}),
    "focus": ("focus", {"lr": 0.8}),
    "fedasync": ("fedasync", {"lr": 0.8}),
    "fedasync hinge": ("fedasync", {"lr": 0.8, "alpha": 0.9, "weighting": "hinge", "slope": 2.0, "grace": 1.0}),
    "fedbuff": ("fedbuff", {"lr": 0.8, "buffer": 5, "power": 1.0}),
    "fedbuff constant": ("fedbuff", {"lr": 0.8, "buffer": 1, "weighting": "constant"}),
    "ace": ("ace", {"lr": 0.8}),
    "ca2fl": ("ca2fl", {"lr": 0.8}),
    "area": ("area", {"lr": 0.8}),
    "ghbm": ("ghbm", {"lr": 0.8, "beta": 0.7, "tau": 3}),
    "ghbm, the last round only": ("ghbm", {"lr": 0.8, "beta": 0.5, "tau": 1}),
    "local_ghbm": ("local_ghbm", {"lr": 0.8, "beta": 0.7}),
    "fedavg momentum": ("fedavg", {"lr": 0.3, "chain": (Momentum(0.5),)}),
    "fedavg_known adam": ("fedavg_known", {"lr": 0.05, "chain": (Adam(eps=1e-3, correct_bias=False),)}),
    "fedswe clip, adam": ("fedswe", {"lr": 0.05, "k": 2.0, "chain": (Clip(0.5), Adam(eps=1e-3))}),
    "fedau adagrad": ("fedau", {"lr": 0.1, "chain": (Adagrad(),)}),
    "mifa yogi": ("mifa", {"lr": 0.05, "chain": (Yogi(),)}),
    "scaffold decay": ("scaffold", {"lr": 0.8, "chain": (WeightDecay(0.01),)}),
    "amplified_scaffold momentum": ("amplified_scaffold", {"lr": 0.3, "period": 7, "chain": (Momentum(0.5),)}),
    "fedbuff momentum": ("fedbuff", {"lr": 0.3, "buffer": 6, "chain": (Momentum(0.5),)}),
    "focus clip": ("focus", {"lr": 0.8, "chain": (Clip(0.05),)}),
    "ghbm clip": ("ghbm", {"lr": 0.8, "tau": 3, "chain": (Clip(0.05),)}),
}


def make(case):
    name, parameters = CASES[case]
    return ALGORITHMS[name](**parameters)


STEPS = 4
CENTERS, CURVATURES = np.array(problems.centers(8)), np.array(problems.curvatures(8))


@cache
def noise(i, t, step):
    """Of a gradient: the same for all algorithms."""
    return 0.1 * keys.normal(problems.SEED, "gradient noise", i, t, step, torch.arange(3)).numpy()


def gradient(i, x, t, step):
    """Of client i of the workbench's quadratic."""
    return CURVATURES[i] * (x - CENTERS[i]) + noise(i, t, step)


def local_lr(t):
    return 0.05 / np.sqrt(t / 10 + 1)


def local_sgd(i, start, t, direction=lambda g, x: g):
    """One client's local phase; `direction(gradient, x)` may change each step."""
    x = np.array(start)
    for step in range(STEPS):
        x = x - local_lr(t) * direction(gradient(i, x, t, step), x)
    return x
