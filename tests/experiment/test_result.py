"""What a run gives back, from memory and from its directory."""

import json

import pytest
import safetensors
import safetensors.torch
import torch
from torch import nn

import fedswe
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import populate
from fedswe.experiment.runner import StopRun

WORDS = ["task.clients=6", "task.alpha=1", "rounds=6", "evaluate.every=3", "local.steps=2", "task.model=mlp"]


def test_a_result_has_history_models_and_experiment_and_loads_back(tmp_path):
    experiment = load(None, [*WORDS, "evaluate.model=server,client_mean,ema:0.9"])
    result = fedswe.run(experiment, tmp_path / "a")
    again = fedswe.load(str(tmp_path / "a"))
    assert (result.directory, again.directory) == (tmp_path / "a", tmp_path / "a")
    assert again.experiment == result.experiment == experiment
    assert again.history == result.history
    assert result.history["round"].tolist() == [0, 3, 6]
    assert list(again.models) == list(result.models) == ["server", "client_mean", "ema_0.9"]
    for name, x in result.models.items():
        assert torch.equal(again.models[name], x)
        named = result.state_dict(name)
        assert {key: list(value.shape) for key, value in named.items()} == {
            "1.weight": [64, 64], "1.bias": [64], "3.weight": [10, 64], "3.bias": [10],
        }  # fmt: skip
        assert list(again.state_dict(name)) == list(named)
        assert all(torch.equal(again.state_dict(name)[key], value) for key, value in named.items())
    with pytest.raises(FedsweError, match=r"no model 'best': it evaluated server, client_mean, ema_0.9"):
        again.state_dict("best")


def test_the_state_dict_is_that_of_the_network_and_a_copy():
    result = fedswe.run(load(None, WORDS))
    assert result.directory is None
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    network.load_state_dict(result.state_dict("client_mean"))
    problem = populate(result.experiment)[0]
    with torch.no_grad():
        right = network(problem.data.x_test).argmax(1) == problem.data.y_test
    assert float(right.double().mean()) == result.history.last["client_mean_test_accuracy"]
    result.state_dict()["1.bias"].zero_()
    assert result.state_dict()["1.bias"].abs().sum() > 0


def test_the_file_has_named_tensors_and_says_what_they_are(tmp_path):
    fedswe.run(load(None, [*WORDS, "algorithm.name=mifa"]), tmp_path / "a")
    with safetensors.safe_open(tmp_path / "a" / "model.safetensors", framework="pt") as file:
        notes = file.metadata()
        assert "server.1.weight" in file.keys()  # noqa: SIM118
    assert (notes["task"], notes["algorithm"], notes["round"]) == ("digits", "mifa", "6")
    assert json.loads(notes["models"]) == ["server", "client_mean"]
    assert json.loads(notes["tensors"]) == ["1.weight", "1.bias", "3.weight", "3.bias"]


def test_a_directory_of_an_earlier_version_loads(tmp_path):
    """It held each model as one vector without names."""
    result = fedswe.run(load(None, WORDS), tmp_path / "a")
    safetensors.torch.save_file(result.models, tmp_path / "a" / "model.safetensors")
    again = fedswe.load(tmp_path / "a")
    assert torch.equal(again.models["client_mean"], result.models["client_mean"])
    assert torch.equal(again.state_dict("server")["3.weight"], result.state_dict("server")["3.weight"])


OWN = """
from dataclasses import dataclass
from fedswe.tasks import Quadratic

@dataclass(frozen=True)
class Own(Quadratic):
    def build(self, setting):
        problem = super().build(setting)
        import torch
        problem.state_dict = lambda x: {"scale": torch.tensor(3), "x": x.flip(0).view(1, -1)}
        return problem
"""


def test_loading_needs_no_file_of_the_user_until_the_experiment_is_asked_for(tmp_path, monkeypatch):
    """Nor does the vector of a model, although its state dict has more, and in another order."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    words = ["task.name=./own.py:Own", "task.centers=[[0.0,1.0],[4.0,2.0]]", "availability.p=0.5", "rounds=5"]
    result = fedswe.run(load(None, words), tmp_path / "a")
    (tmp_path / "own.py").unlink()
    again = fedswe.load(tmp_path / "a")
    assert torch.equal(again.models["server"], result.models["server"])
    assert again.state_dict()["scale"] == 3
    assert torch.equal(again.state_dict()["x"], result.models["server"].flip(0)[None])
    monkeypatch.chdir("/")
    with pytest.raises(FedsweError, match=r"own\.py"):
        _ = fedswe.load(tmp_path / "a").experiment


def test_what_cannot_be_loaded_is_said_in_one_line(tmp_path):
    with pytest.raises(FedsweError, match="holds no run"):
        fedswe.load(tmp_path / "nowhere")

    def stop(t, row):
        if t == 4:
            raise StopRun

    with pytest.raises(StopRun):
        fedswe.run(load(None, WORDS), tmp_path / "a", stop)
    with pytest.raises(FedsweError, match="is not finished: continue it with fedswe run --resume"):
        fedswe.load(tmp_path / "a")
    whole = fedswe.resume(tmp_path / "a")
    assert fedswe.resume(tmp_path / "a").history == whole.history  # a finished run is only read
    for content in (b"", b"\x10\0\0\0\0\0\0\0{}", (tmp_path / "a" / "model.safetensors").read_bytes()[:-4]):
        (tmp_path / "a" / "model.safetensors").write_bytes(content)
        with pytest.raises(FedsweError, match=r"model\.safetensors is damaged"):
            fedswe.load(tmp_path / "a")
