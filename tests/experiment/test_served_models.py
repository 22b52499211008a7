"""Evaluated models of whole runs: both engines, stacks, resumed runs, and which of the models is served."""

import json

import numpy as np
import pytest
import torch

from fedswe import FedsweError, load, resume, run
from fedswe.experiment.configuration import load as experiment
from fedswe.experiment.runner import StopRun
from tests.stacked import run_together

AVERAGES = "ema:0.8:of=client_mean,ema:0.9:correct_bias=true,window:6,window:6:of=client_mean"
MODELS = f"server,client_mean,{AVERAGES},best,best:by=loss"
WORDS = [
    "rounds=25", "task.clients=12", "task.alpha=0.5", "task.hold_out=0.1", "evaluate.every=4", "local.lr=0.5",
    "availability.name=alternating", "availability.period=10", "record.checkpoint=5", f"evaluate.model={MODELS}",
]  # fmt: skip


def without_seconds(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history.rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(experiment(None, WORDS), tmp_path_factory.mktemp("whole") / "run")


def test_a_run_that_was_stopped_ends_with_the_same_bits(whole, tmp_path):
    for after in (3, 5, 11, 24):
        out = tmp_path / str(after)

        def stop(t, row, after=after):
            if t == after:
                raise StopRun

        with pytest.raises(StopRun):
            run(experiment(None, WORDS), out, watch=stop)
        assert without_seconds(resume(out).history) == without_seconds(whole.history)
        assert (out / "model.safetensors").read_bytes() == (whole.directory / "model.safetensors").read_bytes()


def test_both_engines_agree(whole):
    loop = run(experiment(None, [*WORDS, "engine=loop"]))
    assert loop.models.keys() == whole.models.keys()
    for name, x in loop.models.items():
        torch.testing.assert_close(x, whole.models[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(loop.history["best_choice"], whole.history["best_choice"])


def test_runs_in_a_stack_are_those_alone(whole):
    others = [experiment(None, [*WORDS, "seed=4"]), experiment(None, [*WORDS, "algorithm.name=mifa"])]
    together = run_together([experiment(None, WORDS), *others])
    for history, alone in zip(together, [whole.history, *(run(other).history for other in others)], strict=True):
        for column in set(alone.columns) - {"seconds"}:
            np.testing.assert_allclose(history[column], alone[column], atol=2e-3 if "accuracy" in column else 1e-4)


def test_the_choice_is_in_the_history_and_in_the_file(whole):
    models = whole.experiment.evaluate.outputs()
    for best in ("best", "best_by_loss"):
        score = "held_out_accuracy" if best == "best" else "held_out_loss"
        for number, row in enumerate(whole.history.rows):
            chosen = list(models)[int(row[f"{best}_choice"])]
            assert row[f"{best}_test_accuracy"] == row[f"{chosen}_test_accuracy"]
            last = whole.history.rows[max(number - 2, 0) : number + 1]
            means = {m: np.mean([row[f"{m}_{score}"] for row in last]) for m in models if not m.startswith("best")}
            wanted = max(means.values()) if best == "best" else min(means.values())
            assert means[chosen] == pytest.approx(wanted, rel=1e-12)
        assert torch.equal(whole.models[best], whole.models[chosen])
    assert len(set(whole.history["best_choice"])) > 1
    again = load(whole.directory)
    assert again._models.chosen == whole._models.chosen
    assert again._models.chosen["best_by_loss"] == chosen


def test_no_held_out_samples(tmp_path):
    with pytest.raises(FedsweError, match=r"best needs held-out samples: set task\.hold_out, e\.g\. 0\.1") as caught:
        run(experiment(None, ["evaluate.model=server,best"]), tmp_path / "run")
    assert "\n" not in str(caught.value)
    with pytest.raises(FedsweError, match="best needs held-out samples"):  # a task that cannot have any
        run(
            experiment(None, ["evaluate.model=server,best", "task.name=quadratic", "availability.p=0.5"]),
            tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


# the served model ------------------------------------------------------------------------------------------
def test_the_served_model_is_the_default_of_results(tmp_path):
    words = ["rounds=2", "task.clients=5", "task.alpha=1", "evaluate.model=client_mean,server,ema:of=client_mean"]
    for number, (serve, name) in enumerate(
        [("", "server"), ("ema:of=client_mean", "ema_client_mean"), ("ema_client_mean", "ema_client_mean")]
    ):
        result = run(experiment(None, [*words, f"evaluate.serve={json.dumps(serve)}"]), tmp_path / str(number))
        for found in (result, load(tmp_path / str(number))):
            assert found.served == name
            flat = torch.cat([value.reshape(-1) for value in found.state_dict().values()])
            assert torch.equal(flat, found.models[name])


def test_without_the_server_model_the_first_is_served():
    words = ["rounds=2", "task.clients=5", "task.alpha=1", "evaluate.model=ema,client_mean"]
    assert run(experiment(None, words)).served == "ema"
