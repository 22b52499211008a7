"""The models a run is judged by, and when."""

import numpy as np
import pytest
import torch

from fedswe import Evaluate, FedsweError
from fedswe.algorithms import FedSWE
from fedswe.engine.outputs import AugmentedMean, Best, ClientMean, Ema, Outputs, ServerModel, Window
from fedswe.experiment.configuration import load_text
from tests import problems

ROUNDS, M, K, DECAY = 12, 6, 3, 0.8


def test_each_name_is_its_model():
    engine = problems.engine("batched", FedSWE(k=K), problems.quadratic(M), problems.mask(ROUNDS + 20, M))
    named = {
        "server": ServerModel(),
        "client_mean": ClientMean(),
        "augmented_mean": AugmentedMean(),
        "ema": Ema(DECAY, correct_bias=False),
    }
    outputs = Outputs(engine, named)
    average = engine.server_model().numpy()  # starts at x^0
    for _ in range(ROUNDS):
        engine.step()
        outputs.after_round()
        average = DECAY * average + (1 - DECAY) * engine.server_model().numpy()
    server, received = engine.server_model().numpy(), engine.client_models().numpy()
    want = {
        "server": server,
        "client_mean": received.mean(0),
        "augmented_mean": (received.sum(0) + K * server) / (M + K),
        "ema": average,
    }
    models = outputs.models()
    assert list(models) == list(want)
    for name, model in want.items():
        np.testing.assert_allclose(models[name].numpy(), model, rtol=1e-12, err_msg=name)
    assert min(np.abs(a - b).max() for a in want.values() for b in want.values() if a is not b) > 1e-3


@pytest.mark.parametrize("kind", ["batched", "loop"])
@pytest.mark.parametrize("of", ["server", "client_mean"])
def test_averages_over_rounds_are_what_they_say(kind, of):
    engine = problems.engine(kind, FedSWE(k=K), problems.quadratic(M), problems.mask(ROUNDS + 20, M))
    named = {"ema": Ema(DECAY, of, correct_bias=False), "late": Ema(DECAY, of), "window": Window(4, of)}
    named |= {"one": Window(1, of), "none": Ema(0.0, of)}  # the model itself
    outputs, model = Outputs(engine, named), engine.server_model if of == "server" else engine.client_mean
    x = model().numpy()[None]  # the models of rounds 0, 1, ..., t
    late = x[0]
    for t in range(ROUNDS + 1):
        if t:
            engine.step()
            outputs.after_round()
            x = np.vstack([x, model().numpy()])
        models, weights = {name: y.numpy() for name, y in outputs.models().items()}, DECAY ** np.arange(t, -1, -1.0)
        started = np.concatenate([weights[:1], (1 - DECAY) * weights[1:]])
        np.testing.assert_allclose(models["ema"], started @ x, rtol=1e-12)
        kept = min(DECAY, (t - 1) / (t + 3)) if t else 0.0
        late = kept * late + (1 - kept) * x[-1]
        np.testing.assert_allclose(models["late"], late, rtol=1e-12)
        np.testing.assert_array_equal([models["one"], models["none"]], [x[-1]] * 2)
        length = t if t < 4 else 4 + t % 4  # the last complete block of 4 rounds and the one under way
        np.testing.assert_allclose(models["window"], x[-length:].mean(0) if t else x[0], rtol=1e-12)
    assert np.abs(models["ema"] - models["late"]).max() > 1e-3


def test_sums_of_a_long_window_do_not_lose_digits():
    """In float32, a sum of 2000 models would lose three digits."""
    engine = problems.engine("batched", FedSWE(k=K), problems.quadratic(M, dtype=torch.float32), problems.mask(40, M))
    outputs, models = Outputs(engine, {"window": Window(5000)}), []
    for _ in range(20):
        engine.step()
        for _ in range(100):
            outputs.after_round()
        models.append(engine.server_model().double())
    torch.testing.assert_close(outputs.models()["window"].double(), torch.stack(models).mean(0), rtol=1e-7, atol=1e-9)


def test_outputs_take_parameters():
    texts = ["server", "ema", "ema:0.5", "ema:decay=0.25", "ema:of=client_mean", "ema:0.5:of=client_mean"]
    evaluate = Evaluate(
        model=[*texts, "ema:correct_bias=true", "window:20:of=client_mean", "best:by=loss"], ema_decay=0.8
    )
    outputs = evaluate.outputs()
    assert list(outputs) == [
        "server", "ema", "ema_0.5", "ema_decay0.25", "ema_client_mean", "ema_0.5_client_mean", "ema_correct_bias",
        "window_20_client_mean", "best_by_loss",
    ]  # fmt: skip
    assert [outputs[name].decay for name in list(outputs)[1:7]] == [0.8, 0.5, 0.25, 0.8, 0.5, 0.8]
    assert [outputs[name].of for name in list(outputs)[1:6]] == ["server"] * 3 + ["client_mean"] * 2
    assert outputs["window_20_client_mean"] == Window(20, "client_mean")
    assert outputs["best_by_loss"] == Best(by="loss")
    assert all(outputs[name].correct_bias for name in list(outputs)[1:7])
    assert not Evaluate(model=["ema:0.5"], ema_correct_bias=False).outputs()["ema_0.5"].correct_bias
    text = "[evaluate]\nevery = 5\nmodel = ['ema']\nema_decay = 0.9\ntail = 0\ntail_every = 2"  # of an earlier version
    assert load_text(text, "config.toml").evaluate.outputs() == {"ema": Ema(0.9, correct_bias=False)}


@pytest.mark.parametrize(
    "text",
    ["ema:2", "ema:rate=1", "ema:of=clients", "ema:correct_bias=2", "server:1", "nosuch", "window:0", "window:2.5"],
)
def test_outputs_that_cannot_be_built(text):
    with pytest.raises(FedsweError) as caught:
        Evaluate(model=[text])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("evaluate", "rounds"),
    [
        (Evaluate(every=5), [5, 10, 12]),
        (Evaluate(every=20), [12]),
        (Evaluate(every=5, tail=5, tail_every=2), [5, 8, 10, 12]),
        (Evaluate(every=6, tail=100, tail_every=5), [2, 6, 7, 12]),
    ],
)
def test_models_are_judged_every_so_often_and_at_the_end(evaluate, rounds):
    assert [t for t in range(1, 13) if evaluate.due(t, 12)] == rounds
