"""Rounds are taken back: the run continues as if they had not been, and the ledger keeps them."""

import pytest

from fedswe.deploy import ServerEndpoint, ledger, verify
from fedswe.deploy.audit.verify import Scope
from fedswe.deploy.rollback import rollback
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate
from fedswe.results.history import History
from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic

NAMES = ["fedswe", "fedavg", "mifa", "scaffold", "fedpbc"]


def contents(net):
    return ledger.read(net.folder / "server" / ledger.FILE)


def back(net, to):
    """The server ends, rounds are taken back, and it starts again."""
    net.server.release()
    taken = rollback(net.folder / "server", to)
    net.server = ServerEndpoint.open(net.folder / "server", net.deployment, net.problem)
    return taken


def checked(net):
    found = verify(net.folder / "server", scope=Scope(clients=net.folder / "clients"))
    assert found.exact, found.failures
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("delivery", ["eager", "lazy"])
def test_the_rounds_are_run_again_with_the_same_models(scratch, name, delivery):
    """The clients are the same ones: they hold replies of rounds that were taken back."""
    evaluate = Evaluate(model=["server", "ema"], every=1)
    net = Network(scratch, quadratic(name, rounds=8, keep_rounds=3, trail=True, delivery=delivery, evaluate=evaluate))
    net.finish()
    first = [entry.model for entry in contents(net).entries]
    rows = contents(net).rows
    assert back(net, 5) == 3
    assert net.server.t == 5
    assert not (scratch / "server" / "model.safetensors").exists()
    assert History.from_csv((scratch / "server" / "history.csv").read_text()).last["round"] == 5
    net.finish()
    assert [entry.model for entry in contents(net).entries] == first
    again = [{**row, "seconds": 0} for row in contents(net).rows]
    assert again == [{**row, "seconds": 0} for row in rows]
    assert checked(net).replayed == sum(len(entry.merged) for entry in contents(net).entries)


def test_other_clients_may_be_there_the_second_time(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=6, keep_rounds=3, trail=True, p=1.0))
    for who in ([0, 1], [1, 2], [0], [3]):
        net.round(who)
    back(net, 2)
    for who in ([3], [0, 1, 2], [1], [0, 1, 2, 3]):
        net.round(who)
    assert [list(entry.merged) for entry in contents(net).entries[2:]] == [[3], [0, 1, 2], [1], [0, 1, 2, 3]]
    assert contents(net).reached == 6
    net.finish()
    checked(net)


def test_only_rounds_whose_files_are_there(scratch):
    net = Network(scratch, quadratic("mifa", rounds=8, keep_rounds=2))
    net.finish()
    with pytest.raises(FedsweError, match="in use by another process"):
        rollback(scratch / "server", 7)
    net.server.release()
    before = (scratch / "server" / ledger.FILE).read_bytes()
    for to, said in ((4, "can be taken back to 0, 6, 7"), (8, "from 0 to 7"), (-1, "from 0 to 7")):
        with pytest.raises(FedsweError, match=said):
            rollback(scratch / "server", to)
    assert (scratch / "server" / ledger.FILE).read_bytes() == before
    with pytest.raises(FedsweError, match="holds no deployment"):
        rollback(scratch / "nowhere", 1)
    assert rollback(scratch / "server", 6) == 2
    assert rollback(scratch / "server", 0) == 6
    net.server = ServerEndpoint.open(scratch / "server", net.deployment, net.problem)
    net.finish()
    checked(net)


@pytest.mark.parametrize("name", NAMES)
def test_with_kept_reports_any_round_can_be_reached(scratch, name):
    """Files that were removed or damaged are computed again from the reports."""
    net = Network(scratch, quadratic(name, rounds=8, keep_rounds=0, trail=True, evaluate=Evaluate(model=["ema"])))
    net.finish()
    first = [entry.model for entry in contents(net).entries]
    (scratch / "server" / "state" / "8.safetensors").write_bytes(b"x")
    back(net, 3)
    net.finish()
    assert [entry.model for entry in contents(net).entries] == first
    checked(net)


def test_lost_files_after_the_evaluated_models_were_changed(scratch):
    """Averages of an earlier or later configuration are not needed, or begin where they began."""
    net = Network(scratch, quadratic("fedswe", rounds=8, trail=True, evaluate=Evaluate(model=["server"])))
    for _ in range(3):
        net.round()
    net.restart(quadratic("fedswe", rounds=8, trail=True, evaluate=Evaluate(model=["server", "ema"])))
    net.finish()
    first = [entry.model for entry in contents(net).entries]
    for to in (6, 2):
        assert back(net, to) > 0
        assert net.server.t == to
    net.finish()
    assert [entry.model for entry in contents(net).entries] == first
    checked(net)


def test_an_average_that_cannot_be_computed_again_is_named(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=6, trail=True, evaluate=Evaluate(model=["ema"], ema_decay=0.5)))
    for _ in range(4):
        net.round()
    net.restart(quadratic("fedswe", rounds=6, trail=True, evaluate=Evaluate(model=["ema"], ema_decay=0.9)))
    net.finish()
    net.server.release()
    before = sorted(scratch.rglob("*"))
    with pytest.raises(FedsweError, match=r"outputs/2 cannot be computed again with this evaluate\.model"):
        rollback(scratch / "server", 2)
    assert sorted(scratch.rglob("*")) == before


def test_a_crash_between_the_line_and_the_removal_of_files(scratch, monkeypatch):
    from fedswe.deploy import rollback as module

    net = Network(scratch, quadratic("fedswe", rounds=8, keep_rounds=3, trail=True))
    net.finish()
    net.server.release()
    with monkeypatch.context() as patch:
        patch.setattr(module, "_remove_what_follows", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rollback(scratch / "server", 5)
    net.server = ServerEndpoint.open(scratch / "server", net.deployment, net.problem)
    assert net.server.t == 5
    net.finish()
    checked(net)


def test_the_command(scratch, monkeypatch, capsys):
    net = Network(scratch, quadratic("fedswe", rounds=4, keep_rounds=2))
    net.finish()
    net.server.release()
    code, said, _ = fedswe(
        monkeypatch, capsys, "deploy", "rollback", scratch / "server", "--to", 3, "--reason", "a test"
    )
    assert (code, "3 rounds remain, 1 taken back" in said) == (0, True)
    assert contents(net).changes[-1].reason == "a test"
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "rollback", scratch / "server", "--to", 3)
    assert (code, said.count("\n")) == (2, 1)
