"""Whole local phases of a company through the fused solver against the plain steps, in Triton's interpreter on a CPU.

Run as a module, it prints the largest relative error of a client's progress, the error if clients were mixed up, and
whether keyed bits are those of the reference.
"""

import json

import torch

from fedswe.core import keys, keys_cuda
from fedswe.core.local import Local
from fedswe.engine.solvers.fused_cnn import solver
from fedswe.tasks.networks import paper_cnn
from tests.engine.solvers.workbench import problem, stack


def main():
    # A CPU interprets a few images in a second: chunks of two clients, the last one not full, batches of 16 at most.
    solver._CHUNK, solver._GRAIN, solver._room = 2, 1, lambda width: 16
    torch.manual_seed(0)
    module = paper_cnn(32, 16, dropout=0.2)((3, 32, 32), 10)
    runs = [problem(module=module, shape=(3, 32, 32), seed=seed) for seed in (1, 2)]
    plain = problem(module=module, shape=(3, 32, 32), augment=False)
    errors, mixed = [], []
    for mine in (
        stack(runs[:1], [1, 0, 3], local=Local(steps=1, batch_size=9)),  # three samples, and batches cut off at nine
        stack(runs, [0], t=1, local=Local(steps=2, batch_size=16), clip=0.3, drifting=True),  # narrow after wide
        stack([plain], [1], local=Local(steps=2, batch_size=9)),  # neither clip, drift nor crops after all of them
    ):
        want = mine.train() - mine.start
        error = solver.train(mine, graph=False) - mine.start - want
        errors.append(float((error.norm(dim=1) / want.norm(dim=1)).max()))
        if len(want) > 1:
            mixed.append(float(((want.roll(1, 0) - want).norm(dim=1) / want.norm(dim=1)).min()))
    names = keys.bits(3, "x", torch.arange(5), 7)
    bits = torch.equal(keys_cuda.grid(names, 3, 40), keys.grid(names, 3, 40))
    print(json.dumps({"error": max(errors), "mixed": min(mixed), "bits": bits}))


if __name__ == "__main__":
    main()
