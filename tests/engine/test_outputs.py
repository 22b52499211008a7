"""The models a run is judged by, and when."""

import numpy as np
import pytest

from fedswe import Evaluate, FedsweError
from fedswe.algorithms import FedSWE
from fedswe.engine.outputs import AugmentedMean, ClientMean, Ema, Outputs, ServerModel
from tests import problems

ROUNDS, M, K, DECAY = 12, 6, 3, 0.8


def test_each_name_is_its_model():
    engine = problems.engine("batched", FedSWE(k=K), problems.quadratic(M), problems.mask(ROUNDS + 20, M))
    named = {"server": ServerModel(), "client_mean": ClientMean(), "augmented_mean": AugmentedMean(), "ema": Ema(DECAY)}
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


def test_outputs_take_parameters():
    evaluate = Evaluate(model=["server", "ema", "ema:0.5", "ema:decay=0.25"], ema_decay=0.8)
    outputs = evaluate.outputs()
    assert list(outputs) == ["server", "ema", "ema_0.5", "ema_decay0.25"]
    assert [outputs[name].decay for name in list(outputs)[1:]] == [0.8, 0.5, 0.25]


@pytest.mark.parametrize("text", ["ema:2", "ema:rate=1", "server:1", "nosuch"])
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
