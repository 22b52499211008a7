"""The last rows of runs over all algorithms, engines, dynamics and tasks, compared with those in golden_runs.json.

To write the file again after a change that is meant to move numbers: `python -m tests.experiment.test_golden_runs`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from fedswe import run
from fedswe.experiment.configuration import load

FILE = Path(__file__).with_name("golden_runs.json")

SHORT = {
    "fedswe": ["algorithm.k=5"],
    "gfedavg": ["algorithm.period=7", "algorithm.amplification=2"],
    "amplified_scaffold": ["algorithm.period=7", "algorithm.amplification=1.3"],
    "fedau": ["algorithm.cutoff=6"],
    "fedswe_variant": ["algorithm.k=100"],
    "f3ast": ["algorithm.beta=0.05", "algorithm.budget=3", "algorithm.initial_rate=0.7"],
}
ALGORITHMS = (
    "fedswe", "fedawe", "fedavg", "fedavg_all", "fedavg_known", "gfedavg", "fedau", "f3ast", "mifa", "fedvarp",
    "scaffold", "amplified_scaffold", "fedpbc", "fedswe_variant",
)  # fmt: skip
QUADRATIC = [
    "task.name=quadratic", "task.centers=[[0.0,1.0,2.0],[4.0,0.0,1.0],[1.0,9.0,3.0],[5.0,5.0,5.0],[2.0,-3.0,0.5]]",
    "task.noise=0.1", "availability.p=[0.9,0.4,0.6,0.2,0.7]", "local.lr=0.1", "local.steps=3", "rounds=30",
    "evaluate.every=30", "algorithm.lr=0.8", "dtype=float64",
]  # fmt: skip
DIGITS = [
    "task.clients=12", "task.alpha=0.5", "local.lr=0.5", "local.steps=3", "local.batch_size=8", "rounds=12",
    "evaluate.every=12",
]  # fmt: skip
FEDSWE = [*DIGITS, "algorithm.k=100"]
DYNAMICS = {
    "always": [], "stationary": [], "staircase": [], "sine": [], "interleaved_sine": [],
    "alternating": ["availability.period=8"], "cyclic": ["availability.groups=3"], "markov": ["availability.on=0.3"],
}  # fmt: skip
RUNS = {
    **{
        f"quadratic-{engine}-{name}": [f"algorithm.name={name}", *SHORT.get(name, []), *QUADRATIC, f"engine={engine}"]
        for name in ALGORITHMS
        for engine in ("batched", "loop")
    },
    **{f"digits-{name}": [f"algorithm.name={name}", *SHORT.get(name, []), *DIGITS] for name in ALGORITHMS},
    **{f"dynamics-{name}": [f"availability.name={name}", *more, *FEDSWE] for name, more in DYNAMICS.items()},
    "legacy": ["availability.stream=legacy", *FEDSWE],
    "clip at the server": ["algorithm.k=2", "algorithm.clip=0.05", *DIGITS],
    "clip at the clients": ["algorithm.k=2", "local.clip=0.3", *DIGITS],
    "momentum at both": ["local.chain=momentum:0.5", "algorithm.chain=momentum:0.5", "algorithm.lr=0.3", *FEDSWE],
    "columns": ["local.schedule=constant", *FEDSWE, "record.columns=consensus,auxiliary"],
    "outputs": [*FEDSWE, "evaluate.model=server,client_mean,augmented_mean,ema:0.8", "evaluate.ema_correct_bias=false"],
    "mlp": [*FEDSWE, "task.model=mlp"],
    "cnn": [*FEDSWE, "task.model=cnn", "rounds=4", "evaluate.every=4", "task.crop=1", "task.flip=true"],
    "two groups": [*FEDSWE, "task.partition=two_groups", "task.hold_out=0.1"],
}


def last_row(name):
    row = run(load(None, RUNS[name])).history.last
    return {key: value for key, value in row.items() if key != "seconds"}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_numbers_it_gave(name):
    want, got = json.loads(FILE.read_text())[name], last_row(name)
    assert list(got) == list(want)
    tolerance = 1e-9 if name.startswith("quadratic") else 2e-3  # float32, on processors that round otherwise
    np.testing.assert_allclose(list(got.values()), list(want.values()), rtol=tolerance, atol=tolerance)


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: last_row(name) for name in RUNS}, indent=1) + "\n")
