"""Models of a deployment that are chosen on held-out samples, and the model that is served."""

import json

import pytest
import safetensors.torch
import torch

import fedswe
from fedswe.deploy import Rounds, run_in_memory, server, status, verify
from fedswe.deploy.audit.verify import Scope
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate
from fedswe.results.model_file import Models
from fedswe.tasks import Digits
from tests.cli.command import fedswe as command
from tests.deploy.parts import Network, deployment, quadratic
from tests.deploy.tampering import of_kind, rewrite

MODELS = ["client_mean", "server", "ema:0.5:of=client_mean", "best:2", "best:1:by=loss"]


def chosen(evaluate=None, **options):
    evaluate = evaluate or Evaluate(every=2, model=MODELS, serve="best:2")
    task = Digits(clients=4, alpha=0.1, hold_out=0.1)
    return deployment("fedavg", task, 7, "eager", p=0.5, evaluate=evaluate, **options)


def drop(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history.rows]


def final(folder):
    return Models.read(folder / "model.safetensors")


def test_the_choice_is_that_of_a_simulated_run(scratch):
    plan = chosen()
    history = run_in_memory(plan, scratch / "deployed")
    simulated = fedswe.run(plan.experiment, scratch / "simulated")
    for name in ("best_2_choice", "best_1_by_loss_choice"):
        assert list(history[name]) == list(simulated.history[name])
    assert len(set(history["best_1_by_loss_choice"])) > 1
    models = final(scratch / "deployed")
    assert models.chosen == simulated._models.chosen
    assert models.served == simulated.served == "best_2"
    for name, x in models.vectors.items():
        torch.testing.assert_close(x, simulated.models[name], rtol=0, atol=1e-6)


def test_restarts_change_no_choice(scratch):
    straight = run_in_memory(chosen(), scratch / "straight")
    net = Network(scratch / "restarted", chosen())
    while not net.server.finished:
        Rounds(net.server, net.transport).step()
        net.restart()
    assert drop(Rounds(net.server, net.transport).evaluation.history) == drop(straight)
    assert (scratch / "restarted" / "server" / "model.safetensors").read_bytes() == (
        scratch / "straight" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("trail", [False, True])
def test_choices_are_verified(scratch, trail):
    run_in_memory(chosen(trail=trail), scratch)
    scope = Scope(replay=False)
    assert verify(scratch, scope=scope).passed
    last = of_kind("evaluation", [json.loads(line) for line in (scratch / "ledger.jsonl").read_text().splitlines()])[-1]
    other = (last["row"]["best_2_choice"] + 1) % 3
    rewrite(scratch, lambda lines: of_kind("evaluation", lines)[-1]["row"].update(best_2_choice=other))
    assert "best_2_choice" in " | ".join(verify(scratch, scope=scope).failures)


def test_the_last_evaluation_may_choose_another_model(scratch, monkeypatch):
    """model.safetensors is written with the last round, and again with its evaluation; a crash between is noted."""
    net = Network(scratch, chosen(Evaluate(every=7, model=MODELS)))
    for _ in range(6):
        Rounds(net.server, net.transport).step()
    before = net.server._outputs.chosen(net.server.rows)
    net.round()
    assert final(scratch / "server").chosen == before
    folder, scope = scratch / "server", Scope(replay=False)
    assert verify(folder, scope=scope).passed
    with monkeypatch.context() as patch:
        patch.setattr(server.ServerFiles, "save_models", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Rounds(net.server, net.transport)  # makes up for the evaluation
    assert net.server._outputs.chosen(net.server.rows) != before
    found = verify(folder, scope=scope)
    notes = [note for part in found.parts for note in part.notes]
    assert any("the choice of the evaluation before the last" in note for note in notes)
    net.restart()
    assert final(folder).chosen == net.server._outputs.chosen(net.server.rows)
    assert not [note for part in verify(folder, scope=scope).parts for note in part.notes if "choice" in note]


def test_other_models_to_choose_from_after_a_restart(scratch):
    net = Network(scratch, chosen(Evaluate(every=1, model=["server", "best:2"])))
    for _ in range(3):
        Rounds(net.server, net.transport).step()
    net.restart(chosen(Evaluate(every=1, model=["client_mean", "server", "best:2"])))
    history = net.finish()
    assert history["best_2_choice"].max() <= 1
    net.server.release()
    assert verify(scratch / "server").passed


def test_a_deployment_without_held_out_samples(scratch):
    with pytest.raises(FedsweError, match="best needs held-out samples"):
        deployment("fedavg", Digits(), 7, "eager", evaluate=Evaluate(model=["server", "best"]))
    with pytest.raises(FedsweError, match="best needs held-out samples"):
        run_in_memory(quadratic("fedavg", evaluate=Evaluate(model=["server", "best"])), scratch)


# serving ---------------------------------------------------------------------------------------------------
def test_export_and_status_name_the_served_model(scratch, tmp_path, monkeypatch, capsys):
    net = Network(scratch, chosen())
    folder, out = scratch / "server", tmp_path / "x.safetensors"
    for _ in range(4):
        Rounds(net.server, net.transport).step()
    found = status.read_status(folder)
    assert found.served == "best_2"
    assert found.chosen == net.server._outputs.chosen(net.server.rows)["best_2"]
    said = command(monkeypatch, capsys, "deploy", "status", folder)[1]
    assert f"served    best 2 ({found.chosen.replace('_', ' ')})\n" in said
    assert json.loads(command(monkeypatch, capsys, "deploy", "status", folder, "--json")[1])["served"] == "best_2"
    for words, name in (([], "best_2"), (["--model", "ema_0.5_client_mean"], "ema_0.5_client_mean")):
        code, said, _ = command(monkeypatch, capsys, "deploy", "export", folder, "--out", out, *words)
        assert (code, f"{name.replace('_', ' ')} after 4 rounds" in said) == (0, True)
        flat = torch.cat([value.reshape(-1) for value in safetensors.torch.load_file(out).values()])
        assert torch.equal(flat.sort().values, net.server.models()[name].sort().values)
    code, _, said = command(monkeypatch, capsys, "deploy", "export", folder, "--model", "nothing")
    assert (code, said.count("\n")) == (2, 1)
    assert "--model must be one of server, client_mean, ema_0.5_client_mean, best_2" in said


@pytest.mark.parametrize(("name", "served"), [("fedswe", "client_mean"), ("fedavg", "server")])
def test_what_is_served_by_default(scratch, name, served):
    net = Network(scratch, quadratic(name))
    net.round()
    found = status.read_status(net.server.directory)
    assert (found.served, found.chosen) == (served, "")


def test_what_is_served_may_change_without_changing_the_audit(scratch):
    net = Network(scratch, chosen(Evaluate(every=2, model=MODELS), trail=True))
    Rounds(net.server, net.transport).step()
    net.restart(chosen(trail=True))
    net.finish()
    net.server.release()
    found = verify(scratch / "server", scope=Scope(replay=False))
    assert found.passed, found.failures
    assert not any("another configuration" in what for part in found.parts for what in part.skipped)
