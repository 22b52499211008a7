"""`verify` passes what happened; what it does and does not check without data, trail or key; status, trace, export."""

import json

import pytest
import safetensors.torch
import torch

from fedswe.deploy import ServerEndpoint, ledger
from fedswe.deploy.audit.verify import Scope, verify, verify_client
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.deploy.stored_run import snapshot, trace
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate
from fedswe.tasks import Quadratic
from tests.cli.command import fedswe
from tests.deploy.parts import Network, deployment, quadratic
from tests.deploy.tampering import flip, of_kind, rewrite


@pytest.fixture
def folder(scratch):
    net = Network(scratch, quadratic("fedswe"))
    net.finish()
    net.server.release()
    return scratch / "server"


def test_a_true_run_is_exact(folder):
    seen = []
    result = verify(folder, seen.append)
    assert result.exact
    assert result.passed
    assert (result.rounds, seen) == (12, list(range(1, 13)))
    assert result.replay.difference == 0


def test_a_run_can_be_verified_while_it_goes_on(scratch):
    net = Network(scratch, quadratic("mifa"))
    for rounds in (1, 2, 3):
        net.round()
        assert verify(scratch / "server").rounds == rounds
    result = verify(scratch / "server", lambda t: net.round())  # and is three rounds further at the end
    assert (result.rounds, result.exact, net.server.t) == (3, True, 6)


@pytest.mark.parametrize("name", ["fedswe", "mifa"])
def test_models_are_of_one_round_though_another_is_committed_while_they_are_read(scratch, monkeypatch, name):
    net = Network(scratch, quadratic(name, p=1.0))
    net.round()
    read = ServerFiles.state

    def late(store, t, like):
        monkeypatch.setattr(ServerFiles, "state", read)
        net.round()
        return read(store, t, like)

    monkeypatch.setattr(ServerFiles, "state", late)
    entries, models = snapshot(scratch / "server", RunProtocol(net.deployment, net.problem))
    assert [entry.t for entry in entries] == [0, 1]
    assert torch.equal(models["server"], net.server.server_model())
    assert torch.equal(models["client_mean"], net.server.client_mean())


def test_another_server_model_is_noticed(folder):
    """Without the trail, a replay from the data finds the digest of a model that was not kept."""
    rewrite(folder, lambda lines: of_kind("round", lines)[3].update(model="0" * 32))
    assert verify(folder, scope=Scope(replay=False)).passed
    result = verify(folder)
    assert result.replay.differing == [3]
    assert result.failures == ["round 3: the ledger names another server model than the data give"]
    assert not result.exact


@pytest.mark.parametrize(("error", "passed"), [(3e-7, True), (1e-3, False)])
def test_clients_that_round_differently_are_measured_on_the_trail(scratch, error, passed):
    net = Network(scratch, quadratic("fedswe", p=1.0, trail=True))
    exact = net.problem.gradient
    net.problem.gradient = lambda x, batch, precision: exact(x, batch, precision) + error
    for i in range(4):
        net.restart_client(i)
    net.finish()
    result = verify(scratch / "server")
    assert result.replay.compared == 13
    assert 0 < result.replay.difference < 100 * error
    assert result.passed is passed
    assert not result.exact


def test_the_scale_of_a_model_does_not_matter(scratch):
    """The client mean is summed in another order than the simulator's: that rounds in proportion to the models."""
    task = Quadratic(centers=[[100.0, 200.0], [300.0, -100.0], [0.0, 100.0]], start=100.0)
    net = Network(scratch, deployment("fedswe", task, 12, "eager", max_norm=0.0))
    net.finish()
    result = verify(scratch / "server")
    assert result.exact
    assert 0 < result.replay.client_mean_difference < 1e-6
    assert result.passed


def test_what_is_not_a_run_is_refused(scratch):
    for act in (lambda: verify(scratch), lambda: trace(scratch, scratch / "mask.csv")):
        with pytest.raises(FedsweError, match="holds no deployment"):
            act()
    Network(scratch, quadratic("fedswe")).server.release()
    with pytest.raises(FedsweError, match="no round was committed"):
        verify(scratch / "server")
    with pytest.raises(FedsweError, match="no round was committed"):
        trace(scratch / "server", scratch / "mask.csv")


def test_status_of_a_run_whose_plan_is_lost_or_harmed(folder, monkeypatch, capsys):
    for text, complaint in (
        (None, "cannot read"),
        ("rounds = [", "not valid TOML"),
        ("seed = 1", "does not say how many rounds"),
    ):
        (folder / "deployment.toml").unlink(missing_ok=True)
        if text is not None:
            (folder / "deployment.toml").write_text(text)
        code, _, said = fedswe(monkeypatch, capsys, "deploy", "status", folder)
        assert (code, complaint in said, said.count("\n")) == (2, True, 1)


def test_the_mask_is_not_overwritten_by_its_configuration(folder, tmp_path, monkeypatch, capsys):
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "trace", folder, "--out", tmp_path / "mask.toml")
    assert (code, "choose" in said) == (2, True)
    assert not (tmp_path / "mask.toml").exists()
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "trace", folder, "--out", tmp_path / "mask.csv")
    assert code == 0
    assert sum(line.count("1") for line in (tmp_path / "mask.csv").read_text().splitlines()) == verify(folder).reports
    code, _, said = fedswe(monkeypatch, capsys, "run", tmp_path / "mask.toml", "--out", tmp_path / "again")
    assert code == 0


def test_export_gives_the_model_the_algorithm_is_best_served_by(scratch, tmp_path, monkeypatch, capsys):
    for name, best in (("fedswe", "client_mean"), ("fedawe", "client_mean"), ("fedavg", "server")):
        net = Network(scratch / name, quadratic(name))
        net.finish()
        out = tmp_path / f"{name}.safetensors"
        code, said, _ = fedswe(monkeypatch, capsys, "deploy", "export", scratch / name / "server", "--out", out)
        assert (code, best.replace("_", " ") in said) == (0, True)
        assert torch.equal(safetensors.torch.load_file(out)["x"], net.server.models()[best])


@pytest.mark.parametrize("torn", [b'{"t": 12, "mer', b"\0\0\0\0", b"\0\0\n", b'{"kind": "round"\0\0\0}\n'])
def test_a_torn_last_line_was_never_committed(folder, torn):
    whole = (folder / ledger.FILE).read_bytes()
    (folder / ledger.FILE).write_bytes(whole + torn)
    server = ServerEndpoint.open(folder, quadratic("fedswe"))
    assert server.t == 12
    assert (folder / ledger.FILE).read_bytes() == whole
    server.release()


def test_the_served_mean_is_that_of_the_models_last_received(scratch):
    """By hand: FedSWE's client mean is an average of past server models, weighted by who last left at each."""
    net = Network(scratch, quadratic("fedswe", p=1.0, trail=True))
    for who in ([0, 1], [1], [2], []):
        net.round(who)
    x = {0: net.problem.start, **{t: net.server._files.trail(t) for t in (1, 2, 3)}}
    expected = (x[1] + x[2] + x[3] + x[0]) / 4  # clients 0, 1, 2 last received x^1, x^2, x^3; client 3 nothing
    torch.testing.assert_close(net.server.client_mean(), expected)


# the command ----------------------------------------------------------------------------------------------
def test_the_command_names_what_it_checked_and_what_not(folder, monkeypatch, capsys):
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "verify", folder)
    assert code == 0
    assert "all 12 server models have the simulator's bits" in said
    assert "not checked: the sums of the reports: deploy.trail = true" in said
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "verify", folder, "--json")
    table = json.loads(said)
    assert (code, table["passed"], table["complete"], table["rounds"]) == (0, True, True, 12)
    assert {part["name"] for part in table["parts"]} >= {"ledger", "seals", "files", "rounds", "models", "replay"}
    flip(folder / "state" / "12.safetensors")
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "verify", folder)
    assert code == 1
    assert "FAILED: state/12.safetensors is not the file that the ledger names" in said
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "verify", folder, "--json")
    assert code == 1
    assert "state/12.safetensors is not the file that the ledger names" in json.loads(said)["failures"]


def test_the_command_for_a_client(scratch, tmp_path, monkeypatch, capsys):
    net = Network(scratch, quadratic("fedswe", rounds=5, trail=True))
    net.finish()
    run, out = scratch / "server", tmp_path / "sent"
    assert fedswe(monkeypatch, capsys, "deploy", "ledger", run, "--out", out)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == ["deployment.toml", "ledger.jsonl"]
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "verify", out, "--client", 2, "--state", scratch / "clients")
    assert code == 0
    assert "merged reports have the bits of a replay from its data" in said
    code, said, _ = fedswe(monkeypatch, capsys, "deploy", "verify", out, "--client", 2, "--state", tmp_path)
    assert code == 0
    assert "not checked: its" in said
    (scratch / "clients" / "trail-2" / "journal.jsonl").write_text("")
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "verify", out, "--client", 9, "--state", scratch)
    assert (code, "there is no client 9" in said) == (2, True)
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "verify", out, "--client", "x")
    assert (code, "must be a number or all" in said) == (2, True)
    code, said, _ = fedswe(
        monkeypatch, capsys, "deploy", "verify", run, "--client", "all", "--state", scratch / "clients"
    )
    assert code == 0
    assert "every report from the data of its client" in said


@pytest.mark.parametrize("change", [("deadline = 60.0", "deadline = 61.0"), ("lr = 0.05", "lr = 0.06"), None])
def test_a_client_is_given_the_deployment_of_the_run(scratch, change):
    net = Network(scratch, quadratic("fedswe", rounds=4, trail=True))
    net.finish()
    path = scratch / "server" / "deployment.toml"
    assert verify_client(scratch / "server", 1, scratch / "clients").passed
    text = path.read_text()
    path.write_text(text.replace(*change) if change else text + "\n")
    assert path.read_text() != text
    found = verify_client(scratch / "server", 1, scratch / "clients")
    assert found.failures == ["deployment.toml is not the file that the last start in the ledger names"]


def test_a_client_replays_a_run_of_an_earlier_version(scratch, monkeypatch):
    """New keys change the digest of the configuration, which the stored jobs have in their headers."""
    net = Network(scratch, quadratic("fedswe", rounds=4, trail=True))
    net.finish()
    digest = Deployment.digest
    monkeypatch.setattr(Deployment, "digest", lambda deployment: digest(deployment)[::-1])
    found = verify_client(scratch / "server", 1, scratch / "clients")
    assert found.passed, found.failures
    assert found.replayed == found.reports > 0


def test_the_number_of_rounds_may_have_been_lowered(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=8, p=1.0, trail=True))
    for _ in range(6):
        net.round()
    net.restart(quadratic("fedswe", rounds=5, p=1.0, trail=True))
    net.finish()
    found = verify_client(scratch / "server", 1, scratch / "clients")
    assert found.passed, found.failures
    assert found.replayed == 6
    assert verify(scratch / "server", scope=Scope(clients=scratch / "clients")).exact


def test_a_client_is_told_that_its_ledger_is_not_the_newest(scratch, tmp_path, monkeypatch, capsys):
    net = Network(scratch, quadratic("fedswe", rounds=6, p=1.0, trail=True))
    for _ in range(3):
        net.round()
    out = tmp_path / "sent"
    assert fedswe(monkeypatch, capsys, "deploy", "ledger", scratch / "server", "--out", out)[0] == 0
    assert verify_client(out, 2, scratch / "clients").passed
    net.round()
    net.round([0, 1])
    (failure,) = verify_client(out, 2, scratch / "clients").failures
    assert "this ledger ends after 3 rounds, and the client took part in later ones, up to round 3" in failure
    # Another line in the middle is not a later round.
    rewrite(out, lambda lines: of_kind("round", lines)[1].update(seconds=7.0))
    failures = verify_client(out, 2, scratch / "clients").failures
    assert any("names a line that this ledger does not have" in failure for failure in failures)


def test_evaluations_of_another_configuration_are_not_compared(scratch):
    evaluate = Evaluate(model=["server", "ema"], every=1)
    net = Network(scratch, quadratic("fedswe", rounds=3, trail=True, evaluate=evaluate))
    net.finish()
    net.restart(quadratic("fedswe", rounds=6, trail=True, evaluate=Evaluate(model=["server", "ema:0.5"], every=1)))
    for i in range(4):
        net.restart_client(i, net.deployment)
    net.finish()
    result = verify(scratch / "server")
    assert result.exact, result.failures
    assert "3 of 7 evaluations computed again" in str(result.parts)
