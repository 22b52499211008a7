"""Linear speed-up on digits: rounds until the training loss is at most 0.3, for more clients and for more local steps.

python linear_speedup.py > speedup-digits.csv      # minutes; draws speedup-digits.png
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import fedswe

SIZES = [(m, 2) for m in (2, 4, 8, 16, 32)] + [(8, s) for s in (1, 4, 8, 16)]  # clients, local steps
RATES, SEEDS, ROUNDS, TARGET = (0.16, 0.32, 0.64, 1.28, 2.56), (1, 2, 3), 400, 0.3


def rounds_needed(clients: int, steps: int, rate: float, rounds: int = ROUNDS) -> float:
    """The first round whose training loss, averaged over seeds, is at most TARGET; infinite if there is none."""
    task = fedswe.tasks.Digits(clients=clients, partition="iid", model="softmax")
    local = fedswe.Local(steps=steps, batch_size=1, lr=rate, schedule="constant")
    here, evaluate = fedswe.availability.Stationary(p=0.5), fedswe.Evaluate(every=5, model=["client_mean"])
    base = fedswe.Experiment(rounds, availability=here, task=task, local=local, evaluate=evaluate)
    algorithm = fedswe.algorithms.FedSWE(k=clients)
    runs = [fedswe.run(replace(base, algorithm=algorithm, seed=seed)).history for seed in SEEDS]
    loss = np.mean([run["client_mean_train_loss"] for run in runs], axis=0)
    return min(runs[0]["round"][loss <= TARGET], default=np.inf)


if __name__ == "__main__":
    best, (left, right) = {}, plt.subplots(1, 2, sharey=True, figsize=(6.9, 3), layout="constrained")[1]
    print("clients,steps", *(f"rate {rate:g}" for rate in RATES), sep=",")
    for size in SIZES:
        best[size] = min(found := [rounds_needed(*size, rate) for rate in RATES])
        print(*size, *(f"{n:g}" for n in found), sep=",", flush=True)
    for axes, x, name in ((left, 0, "clients, 2 steps"), (right, 1, "local steps, 8 clients")):
        sizes, rounds = zip(*((z[x], n) for z, n in sorted(best.items()) if z[1 - x] == (2, 8)[x]), strict=True)
        linear = [rounds[0] * sizes[0] / n for n in sizes]
        axes.loglog(sizes, rounds, "o-", sizes, linear, ":", base=2)
        axes.set(xlabel=name, ylabel="rounds (dotted: linear)")
    plt.savefig("speedup-digits.png", dpi=150)
