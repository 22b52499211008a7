"""Random images parted among clients of uneven size, and stacks of their local training."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch

from fedswe.core.algorithm import Job
from fedswe.core.local import Local
from fedswe.engine.work import Stack, Work
from fedswe.tasks.batches import Augmentation
from fedswe.tasks.client_samples import PooledSamples
from fedswe.tasks.data_set import DataSet
from fedswe.tasks.losses import Objective
from fedswe.tasks.network import Network
from fedswe.tasks.networks import NETWORKS
from fedswe.tasks.problem import Setting
from fedswe.tasks.supervised_problem import SupervisedProblem

SIZES = [3, 40, 9, 25, 40, 17, 31, 40, 12]  # samples of the clients; several have less than a batch of 16


@cache
def data(shape):
    rng = np.random.default_rng(2)
    images, labels = rng.standard_normal((sum(SIZES), *shape), dtype=np.float32), np.arange(sum(SIZES)) % 10
    return DataSet(images, labels, images[:10], labels[:10])


def problem(model="mlp", shape=(3, 8, 8), device="cpu", module=None, seed=4, augment=True):
    """Random images parted among clients of the sizes above; with `augment` cropped and mirrored, with a border."""
    torch.manual_seed(seed)
    network = Network(module or NETWORKS[model](shape, 10))
    setting = Setting(seed, torch.float32, torch.device(device))
    parts = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
    return SupervisedProblem(
        PooledSamples(data(shape), parts, setting), network, Objective.of("cross_entropy"), setting,
        Augmentation(2, True) if augment else Augmentation(), (0.3, -0.7, 1.1) if augment else (),
    )  # fmt: skip


def stack(problems, ids, t=0, drifting=False, clip=0.0, local=None):
    """One run for each problem, all of the same clients, with rates and starting places of their own."""
    local = local or Local(steps=3, batch_size=16, lr=0.1)
    works = []
    for number, one in enumerate(problems):
        generator = torch.Generator().manual_seed(100 * t + number)
        noise = 0.1 * torch.randn(2, len(ids), len(one.start), generator=generator).to(one.start.device)
        job = Job(one.start + noise[0], noise[1] if drifting else None)
        own = replace(local, lr=local.lr / (1 + number), clip=clip)
        works.append(Work(one, job, np.array(ids), t, own))
    return Stack(works)
