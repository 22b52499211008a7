"""Your own data: one CSV with a column that says which hospital each row comes from.

python own_data.py                                   # makes patients.csv if it is not there
fedswe compare task.name=./own_data.py:hospitals --algorithms fedswe,fedavg,mifa
"""

from pathlib import Path

import numpy as np
from torch import nn

import fedswe
from fedswe.tasks import DataTask, from_data

FILE = Path(__file__).with_name("patients.csv")


def hospitals(hidden: int = 16) -> DataTask:
    """Two classes from six measurements; the parameters of this function can be set: task.hidden=32."""
    table = np.loadtxt(FILE, delimiter=",", skiprows=1)
    hospital, inputs, labels = table[:, 0].astype(int), table[:, 1:7], table[:, 7].astype(int)
    test = np.arange(len(table)) % 5 == 0

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    train = inputs[~test], labels[~test]
    return from_data(network, train, (inputs[test], labels[test]), clients=hospital[~test])


if __name__ == "__main__":
    if not FILE.exists():
        rng = np.random.default_rng(0)
        where, x = rng.integers(0, 12, 900), rng.standard_normal((900, 6))
        y = x @ [1, -1, 2, 0, 0, 1] + 0.3 * where > 1.5
        header = "hospital,a,b,c,d,e,f,ill"
        np.savetxt(FILE, np.column_stack([where, x, y]), "%.6g", delimiter=",", header=header, comments="")
    experiment = fedswe.Experiment(rounds=60, task=hospitals())
    print(fedswe.compare(experiment, ["fedswe:k=0", "fedavg", "mifa"], seeds=[3, 4]).summary_csv())
