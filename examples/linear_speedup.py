"""Linear speed-up on digits: rounds until the training loss is at most 0.3, for more clients and for more local steps.

python linear_speedup.py [rounds] > speedup.csv
"""

import sys

import numpy as np

import fedswe

SIZES = [(m, 2) for m in (2, 4, 8, 16, 32)] + [(8, s) for s in (1, 4, 8, 16)]  # clients, local steps
RATES, SEEDS, TARGET = (0.16, 0.32, 0.64, 1.28, 2.56), (1, 2, 3), 0.3


def rounds_needed(clients: int, steps: int, rate: float, rounds: int) -> float:
    """The first round whose training loss, averaged over seeds, is at most TARGET; infinite if there is none."""
    curves = []
    for seed in SEEDS:
        experiment = fedswe.Experiment(
            rounds=rounds,
            seed=seed,
            algorithm=fedswe.algorithms.FedSWE(k=clients),
            availability=fedswe.availability.Stationary(p=0.5),
            task=fedswe.tasks.Digits(clients=clients, partition="iid", model="softmax"),
            local=fedswe.Local(steps=steps, batch_size=1, lr=rate, schedule="constant"),
            evaluate=fedswe.Evaluate(every=5, model=["client_mean"]),
        )
        history = fedswe.run(experiment).history
        curves.append(history["client_mean_train_loss"])
    below = history["round"][np.mean(curves, axis=0) <= TARGET]
    return float(below[0]) if len(below) else np.inf


if __name__ == "__main__":
    print("clients,steps,rate,rounds")
    for m, s in SIZES:
        for rate in RATES:
            print(f"{m},{s},{rate:g},{rounds_needed(m, s, rate, int((*sys.argv, 400)[1])):g}", flush=True)
