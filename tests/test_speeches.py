"""The example with text: a client is a speaker, and only adapters may be trained."""

from pathlib import Path

import numpy as np
import pytest
import torch

import fedswe
from fedswe import registry
from fedswe.algorithms import FedAvg
from fedswe.availability import Stationary
from fedswe.core.local import Local
from fedswe.tasks.problem import Setting

EXAMPLE = Path(__file__).parents[1] / "examples" / "speeches.py"
SPEAKERS = ("eve_l_adams", "bob", "cy_young", "dan", "abe", "fay_of_ohio")  # in the order of their first addresses
SCORES = ("loss", "accuracy")
CPU = Setting(3, torch.float64, torch.device("cpu"))


@pytest.fixture
def speeches(tmp_path):
    """The task on made-up texts: the i-th speaker has said 2,000 (i + 1) words of his own, in two addresses."""
    rng = np.random.default_rng(0)
    for i, speaker in enumerate(SPEAKERS):
        words = ["".join(rng.choice(list("abcdefgh"), 5)) for _ in range(8)]
        for year in (1800 + i, 1900 + i):
            text = " ".join(rng.choice(words, 1000 * (i + 1))).capitalize()
            (tmp_path / f"{year}_{speaker}_dr.txt").write_text(f"{text} — ‘café’.\n", encoding="utf-8")
    task = registry.resolve("task", f"{EXAMPLE}:speeches")
    return lambda **options: task(**{"folder": str(tmp_path), **options})


def run(task):
    local = Local(steps=4, batch_size=10, lr=0.3, clip=5.0)
    return fedswe.run(
        fedswe.Experiment(rounds=15, task=task, algorithm=FedAvg(), availability=Stationary(p=0.6), local=local)
    )


def test_every_speaker_is_a_client(speeches):
    problem = speeches(hold_out=0.1).build(CPU)
    assert problem.m == len(SPEAKERS)
    assert problem.sizes == pytest.approx([12000 * (i + 1) / 512 * 0.95 * 0.9 for i in range(6)], rel=0.2)
    assert problem.network.vmaps
    assert set(problem.evaluate(problem.start)) == {f"{part}_{s}" for part in ("test", "held_out") for s in SCORES}


def test_the_test_set_does_not_depend_on_what_is_held_out(speeches):
    some, none = (speeches(hold_out=share, score_train=True).build(CPU) for share in (0.2, 0.0))
    assert torch.equal(some.data.x_test, none.data.x_test)
    assert torch.equal(none.data.x_test[:, 1:], none.data.y_test[:, :-1])  # the characters that follow
    assert some.sizes.sum() == pytest.approx(0.8 * none.sizes.sum(), abs=1)
    assert set(none.evaluate(none.start)) == {f"{part}_{s}" for part in ("train", "test") for s in SCORES}


def test_the_loss_falls(speeches):
    history = run(speeches(hold_out=0.1)).history
    for part in ("test", "held_out"):
        first, last = (row[f"server_{part}_loss"] for row in (history.rows[0], history.last))
        assert last < 0.8 * first
        assert history.last[f"server_{part}_accuracy"] > history.rows[0][f"server_{part}_accuracy"] + 0.05


def test_only_adapters_are_trained(speeches):
    task = speeches(rank=4, pretraining=20, hold_out=0.1)
    problem, result = task.build(CPU), run(task)
    assert problem.m == 3  # the texts of the others are those of the base
    assert problem.start.numel() < speeches().build(CPU).start.numel() / 10
    before, after = problem.state_dict(problem.start), result.state_dict("server")
    moved = {name for name, value in after.items() if not torch.allclose(value.double(), before[name], atol=1e-5)}
    assert moved
    assert all(name.endswith(("first.weight", "second.weight")) for name in moved)
    assert result.history.last["server_test_loss"] < result.history.rows[0]["server_test_loss"]


def test_a_missing_folder_is_named(speeches, tmp_path):
    with pytest.raises(fedswe.FedsweError, match=r"there are no texts in .*nothing"):
        speeches(folder=str(tmp_path / "nothing")).build(CPU)
