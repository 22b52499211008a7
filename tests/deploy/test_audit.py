"""`verify` passes what happened and notices what did not; a run directory that was harmed says so in one line."""

import json

import pytest
import safetensors.torch
import torch

from fedswe.deploy import ServerEndpoint, ledger
from fedswe.deploy.audit import snapshot, trace, verify
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.errors import FedsweError
from fedswe.tasks import Quadratic
from tests.cli.command import fedswe
from tests.deploy.parts import Network, deployment, quadratic


@pytest.fixture
def folder(scratch):
    net = Network(scratch, quadratic("fedswe"))
    net.finish()
    net.server.release()
    return scratch / "server"


def rewrite(folder, line, change):
    path = folder / ledger.FILE
    lines = path.read_text().splitlines()
    table = json.loads(lines[line])
    change(table)
    lines[line] = json.dumps(table)
    path.write_text("\n".join(lines) + "\n")


def test_a_true_run_is_exact(folder):
    seen = []
    result = verify(folder, seen.append)
    assert result.exact
    assert result.passed
    assert (result.rounds, seen) == (12, list(range(1, 13)))
    assert result.difference == 0


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


def test_a_forgotten_client_is_noticed(folder):
    """A ledger that leaves out one merged report cannot explain the models that follow."""
    entries = ledger.read(folder / ledger.FILE).entries
    t, client = next((e.t, i) for e in entries[3:] for i in e.merged)
    follows = next(e.t for e in entries[t + 1 :] if client in e.merged)
    rewrite(folder, t + 1, lambda entry: entry["merged"].pop(str(client)))
    rewrite(folder, follows + 1, lambda entry: entry["merged"].update({str(client): entries[t].merged[client]}))
    result = verify(folder)
    assert result.differing[0] == t
    assert not result.passed


def test_a_report_echoed_from_the_wrong_round_is_noticed(folder):
    rewrite(folder, 12, lambda entry: entry["merged"].update({next(iter(entry["merged"])): 3}))
    with pytest.raises(FedsweError, match="echoed from round 3"):
        verify(folder)


def test_another_server_model_is_noticed(folder):
    rewrite(folder, 4, lambda entry: entry.update(model="0" * 32))
    result = verify(folder)
    assert result.differing == [3]
    assert not result.exact
    assert result.difference == 0  # there is no copy of that model to measure


@pytest.mark.parametrize(("error", "passed"), [(3e-7, True), (1e-3, False)])
def test_clients_that_round_differently_are_measured_on_the_trail(scratch, error, passed):
    net = Network(scratch, quadratic("fedswe", p=1.0, trail=True))
    exact = net.problem.gradient
    net.problem.gradient = lambda x, batch, precision: exact(x, batch, precision) + error
    for i in range(4):
        net.restart_client(i)
    net.finish()
    result = verify(scratch / "server")
    assert result.compared == 13
    assert 0 < result.difference < 100 * error
    assert result.passed is passed
    assert not result.exact


def test_the_scale_of_a_model_does_not_matter(scratch):
    """The client mean is summed in another order than the simulator's: that rounds in proportion to the models."""
    task = Quadratic(centers=[[100.0, 200.0], [300.0, -100.0], [0.0, 100.0]], start=100.0)
    net = Network(scratch, deployment("fedswe", task, 12, "eager"))
    net.finish()
    result = verify(scratch / "server")
    assert result.exact
    assert 0 < result.client_mean_difference < 1e-6
    assert result.passed


def test_a_model_that_is_no_number_does_not_pass(scratch):
    net = Network(scratch, quadratic("fedswe", trail=True))
    net.finish()
    rewrite(scratch / "server", 6, lambda entry: entry.update(model="0" * 32))
    net.server._files.save_trail(6, net.problem.start * float("nan"))
    assert not verify(scratch / "server").passed


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
    for text, complaint in ((None, "cannot read"), ("rounds = [", "not valid TOML"), ("seed = 1", "how many rounds")):
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


@pytest.mark.parametrize("torn", [b'{"t": 12, "mer', b"\0\0\0\0", b"{}\n", b"\0\0\n"])
def test_a_torn_last_line_was_never_committed(folder, torn):
    whole = (folder / ledger.FILE).read_bytes()
    (folder / ledger.FILE).write_bytes(whole + torn)
    server = ServerEndpoint.open(folder, quadratic("fedswe"))
    assert server.t == 12
    assert (folder / ledger.FILE).read_bytes() == whole
    server.release()


@pytest.mark.parametrize("harm", ["middle", "title", "state", "version", "start", "deployment"])
def test_a_harmed_run_directory_says_what_to_do(folder, harm):
    path = folder / ledger.FILE
    lines = path.read_bytes().split(b"\n")
    if harm == "middle":
        path.write_bytes(b"\n".join([*lines[:5], b"x", *lines[6:]]))
    elif harm == "title":
        path.write_bytes(b"\n".join([b"x", *lines[1:]]))
    elif harm == "state":
        (folder / "state" / "12.safetensors").write_bytes(b"x")
    elif harm == "version":
        next((folder / "versions").iterdir()).unlink()
    elif harm == "start":
        (folder / "start.safetensors").unlink()
    else:
        text = (folder / "deployment.toml").read_text()
        (folder / "deployment.toml").write_text(text.replace("seed = 5", "seed = 6"))
    with pytest.raises(FedsweError, match=r"restore") as caught:
        verify(folder)
    assert "\n" not in str(caught.value)


def test_the_served_mean_is_that_of_the_models_last_received(scratch):
    """By hand: FedSWE's client mean is an average of past server models, weighted by who last left at each."""
    net = Network(scratch, quadratic("fedswe", p=1.0, trail=True))
    for who in ([0, 1], [1], [2], []):
        net.round(who)
    x = {0: net.problem.start, **{t: net.server._files.trail(t) for t in (1, 2, 3)}}
    expected = (x[1] + x[2] + x[3] + x[0]) / 4  # clients 0, 1, 2 last received x^1, x^2, x^3; client 3 nothing
    torch.testing.assert_close(net.server.client_mean(), expected)
