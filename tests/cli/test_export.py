"""The command `fedswe export`: what it writes loads with other libraries."""

import numpy as np
import pytest
import safetensors.torch
import torch

from fedswe import load, run
from fedswe.experiment.configuration import load as experiment
from fedswe.tasks.networks import cnn
from tests.cli.command import fedswe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "run"
    run(experiment(None, ["rounds=2", "task.clients=5", "task.alpha=1", "task.model=cnn", "local.steps=1"]), folder)
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "name", "read"),
    [
        ([], "client_mean.safetensors", safetensors.torch.load_file),
        (["--format", "torch"], "client_mean.pt", lambda path: torch.load(path, weights_only=True)),
        (["--out", "mine.pth"], "mine.pth", lambda path: torch.load(path, weights_only=True)),
    ],
)
def test_a_state_dict_loads_into_the_network(folder, tmp_path, monkeypatch, capsys, words, name, read):
    code, text, err = fedswe(monkeypatch, capsys, "export", folder, "--model", "client_mean", *words)
    assert (code, err) == (0, "")
    assert text == f"model     {name}: client mean after 2 rounds (--model: also server)\n"
    network = cnn((1, 8, 8), 10)
    network.load_state_dict(read(tmp_path / name))
    load(folder).export(tmp_path / "from_python.pt", "client_mean")
    assert torch.load(tmp_path / "from_python.pt", weights_only=True).keys() == read(tmp_path / name).keys()
    flat = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    assert torch.equal(flat, load(folder).models["client_mean"])


def test_without_a_name_the_served_model_is_written(folder, tmp_path, monkeypatch, capsys):
    assert fedswe(monkeypatch, capsys, "export", folder)[1].startswith("model     server.safetensors: server after")
    words = ["rounds=2", "task.clients=5", "task.alpha=1", "evaluate.model=server,ema:of=client_mean"]
    run(experiment(None, [*words, "evaluate.serve=ema:of=client_mean"]), tmp_path / "served")
    code, text, _ = fedswe(monkeypatch, capsys, "export", tmp_path / "served")
    assert (code, text) == (
        0,
        "model     ema_client_mean.safetensors: ema client mean after 2 rounds (--model: also server)\n",
    )
    written = safetensors.torch.load_file(tmp_path / "ema_client_mean.safetensors")
    wanted = load(tmp_path / "served").state_dict("ema_client_mean")
    assert all(torch.equal(value, wanted[name]) for name, value in written.items())


def test_onnx_computes_what_the_network_does(folder, tmp_path, monkeypatch, capsys):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    from onnx.reference import ReferenceEvaluator

    code, _, err = fedswe(monkeypatch, capsys, "export", folder, "--format", "onnx")
    assert (code, err) == (0, "")
    network = cnn((1, 8, 8), 10).eval()
    network.load_state_dict(load(folder).state_dict("server"))
    inputs = torch.randn(5, 1, 8, 8)
    found = ReferenceEvaluator(onnx.load("server.onnx")).run(None, {"input": inputs.numpy()})[0]
    with torch.no_grad():
        np.testing.assert_allclose(found, network(inputs).numpy(), atol=1e-5)


def test_a_task_without_a_network_has_no_onnx(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxscript")
    run(experiment(None, ["task.name=quadratic", "availability.p=0.5", "rounds=2"]), tmp_path / "run")
    code, _, err = fedswe(monkeypatch, capsys, "export", "run", "--format", "onnx")
    assert (code, "the task has no network" in err) == (2, True)
    assert fedswe(monkeypatch, capsys, "export", "run", "--out", "x.safetensors")[0] == 0
    assert safetensors.torch.load_file("x.safetensors")["x"].shape == (1,)
