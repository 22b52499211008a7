"""What happens when a server restarts, a client's disk is lost, or somebody comes from another run."""

import errno
import fcntl
import shutil
from dataclasses import replace

import pytest

from fedswe.deploy import Deployment, ServerEndpoint, ledger
from fedswe.deploy.audit.verify import verify
from fedswe.errors import FedsweError
from fedswe.results.model_file import Models
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import Network, algorithm, quadratic
from tests.deploy.tampering import of_kind, rewrite

STATEFUL = ["fedswe", "fedawe", "fedpbc"]  # algorithms whose clients keep a base


def models(folder):
    return [entry.model for entry in ledger.read(folder / "server" / ledger.FILE).entries]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_restarted_server_resumes_at_the_first_uncommitted_round(scratch, name):
    straight = Network(scratch / "straight", quadratic(name))
    straight.finish()
    net = Network(scratch / "restarted", quadratic(name))
    for t in range(6):
        if t in (0, 1, 5):
            net.ask()  # this round is under way and not committed
            net.restart()
            assert net.server.t == t
        net.round()
    net.finish()
    assert models(scratch / "restarted") == models(scratch / "straight")
    assert (net.server.client_mean() == straight.server.client_mean()).all()


def test_a_report_to_the_server_before_its_restart_is_rejected(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    answer = net.clients[0].handle(net.server.jobs([0])[0])
    net.restart()
    net.server.jobs([0])
    assert net.server.receive(0, answer) is None
    net.close()
    assert net.server.committed.merged == {}
    assert net.server.committed.rejected == {0: {"epoch": 1}}


@pytest.mark.parametrize("name", STATEFUL)
def test_lost_between_report_and_delivery(scratch, name):
    """The client was merged and never heard of it: its next job brings the reply, and nothing is counted twice."""
    net = Network(scratch, quadratic(name, p=1.0))
    net.ask([0, 1])
    deliveries = net.server.close()
    assert set(deliveries) == {0, 1}
    net.converse(1, deliveries[1])
    jobs = net.server.jobs([0, 1])
    assert "reply.x" in jobs[0].arrays
    assert not jobs[1].arrays
    for i in (0, 1):
        assert net.converse(i, jobs[i]).kind == "report"
    assert not net.server.jobs([0])[0].arrays  # it keeps what was attached, and says so
    net.close()
    assert net.server.committed.merged == {0: 0, 1: 0}
    assert verify(scratch / "server").exact


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("harm", ["deleted", "foreign"])
def test_a_client_without_its_state_is_repaired_in_the_same_round(scratch, name, harm):
    net = Network(scratch, quadratic(name, p=1.0))
    for _ in range(3):
        net.round()
    path = scratch / "clients" / "client-2.safetensors"
    assert path.exists()
    if harm == "deleted":
        path.unlink()
    else:  # a client of another run of the same deployment
        other = Network(scratch / "other", quadratic(name, p=1.0))
        for _ in range(3):
            other.round([2, 3])
        shutil.copy(scratch / "other" / "clients" / path.name, path)
    net.restart_client(2)
    job = net.server.jobs([2])[2]
    assert not job.arrays
    asking = net.clients[2].handle(job)
    assert asking.kind == "need_state"
    again = net.server.receive(2, asking)
    assert again.kind == "job"
    assert net.server.receive(2, net.clients[2].handle(again)) is None
    net.close()
    assert net.server.committed.merged == {2: 2}
    assert verify(scratch / "server").exact


def test_a_client_whose_start_differs_is_sent_the_servers(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    own = replace(net.deployment.experiment.task, start=9.0)
    net.problem = replace(net.deployment, experiment=replace(net.deployment.experiment, task=own)).problem()
    net.restart_client(1)
    assert net.converse(1, net.server.jobs([1])[1]).kind == "report"
    net.close()
    assert net.server.committed.merged == {1: -1}
    assert verify(scratch / "server").exact


def test_a_server_restored_from_a_backup_repairs_its_clients(scratch):
    """Clients then hold replies of rounds that never were; they are known by content, not by number."""
    net = Network(scratch, quadratic("fedswe", p=1.0, rounds=8))
    net.round()
    net.server.release()
    shutil.copytree(scratch / "server", scratch / "backup")
    net.server = ServerEndpoint.open(scratch / "server", net.deployment, net.problem)
    for _ in range(3):
        net.round([0, 1])
    net.server.release()
    shutil.rmtree(scratch / "server")
    (scratch / "backup").rename(scratch / "server")
    net.server = ServerEndpoint.open(scratch / "server", net.deployment, net.problem)
    assert net.server.t == 1
    for _ in range(3):  # the same rounds again, with others there; deliveries to client 0 are lost
        for i, job in net.server.jobs([0, 2]).items():
            net.converse(i, job)
        net.server.close()
    net.finish()
    assert verify(scratch / "server").exact


def test_old_and_repeated_deliveries_change_nothing(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    seen = []
    for _ in range(3):
        net.ask()
        seen.append(net.server.close()[0])
        for i in range(4):
            net.converse(i, seen[-1])
    path = scratch / "clients" / "client-0.safetensors"
    before = path.read_bytes()
    for delivery in reversed(seen):  # the oldest last
        assert net.clients[0].handle(delivery.to_bytes()).kind == "ack"
    assert path.read_bytes() == before


def test_a_delivery_in_lazy_mode_is_not_needed_and_nothing_is_written_at_the_client(scratch):
    net = Network(scratch, quadratic("fedswe", delivery="lazy"))
    net.finish()
    assert not list((scratch / "clients").iterdir())


def test_two_servers_do_not_share_a_directory(scratch):
    net = Network(scratch, quadratic("fedswe"))
    with pytest.raises(FedsweError, match="in use by another process"):
        ServerEndpoint.open(scratch / "server", net.deployment, net.problem)
    net.restart()
    assert net.server.t == 0


def test_a_file_system_without_locks_is_one_warning(scratch, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.delenv("FEDSWE_NO_LOCKS", raising=False)
    for folder in ("a", "b"):
        Network(scratch / folder, quadratic("fedswe")).finish()
    monkeypatch.delenv("FEDSWE_NO_LOCKS")
    err = capsys.readouterr().err
    assert err.startswith("warning: the file system of ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("change", [{"seed": 6}, {"name": "fedavg"}, {"m": 5}])
def test_another_deployment_is_refused(scratch, change):
    Network(scratch, quadratic("fedswe")).server.release()
    other = quadratic(**{"name": "fedswe", **change})
    with pytest.raises(FedsweError, match=r"another|start\.safetensors|the task has 5 clients"):
        ServerEndpoint.open(scratch / "server", other)


def test_a_client_with_another_deployment_declines(scratch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    net.restart_client(0, quadratic("fedswe", p=0.9))
    answer = net.converse(0, net.server.jobs([0])[0])
    assert answer.kind == "decline"
    assert "same deployment" in answer.header["reason"]
    net.close()
    assert net.server.committed.declined == 1


def as_of_an_earlier_version(folder):
    """Take a key from deployment.toml, as if it had not existed when the run was begun."""
    kept = folder / "deployment.toml"
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(line for line in lines if not line.startswith("decay_rounds")))

    def earlier(lines):
        lines[0]["plan"] = "0" * 16
        for line in of_kind("start", lines):
            line["files"]["deployment.toml"] = ledger.file_digest(kept.read_bytes())

    rewrite(folder, earlier)


def test_a_later_version_that_knows_more_keys_continues_and_verifies_a_run(scratch):
    """The run keeps the keys of its time; under another digest than the later version's."""
    net = Network(scratch, quadratic("fedswe", p=1.0))
    net.round()
    net.server.release()
    folder = scratch / "server"
    path = folder / ledger.FILE
    as_of_an_earlier_version(folder)
    assert verify(folder).exact
    with pytest.raises(FedsweError, match="holds a run of another algorithm"):
        ServerEndpoint.open(folder, quadratic(algorithm("fedswe", clip=3.0), p=1.0))
    net.server = ServerEndpoint.open(folder, net.deployment, net.problem)
    net.finish()
    assert [entry.merged[0] for entry in ledger.read(path).entries] == list(range(-1, 11))
    assert verify(folder).exact


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_crash_in_an_upgrade_between_the_start_and_its_deployment(scratch, monkeypatch, crashes):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    net.round()
    net.server.release()
    folder = scratch / "server"
    kept = folder / "deployment.toml"
    as_of_an_earlier_version(folder)
    before = kept.read_bytes()
    for _ in range(crashes):
        with monkeypatch.context() as patch:
            patch.setattr(Deployment, "save", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                ServerEndpoint.open(folder, net.deployment, net.problem)
    assert kept.read_bytes() == before
    assert verify(folder).exact
    net.server = ServerEndpoint.open(folder, net.deployment, net.problem)
    assert kept.read_bytes() != before
    net.finish()
    assert verify(folder).exact
    kept.write_bytes(before)
    assert "deployment.toml" in " ".join(verify(folder).failures)


def test_more_rounds_can_be_asked_for(scratch):
    net = Network(scratch, quadratic("fedswe", rounds=4))
    net.finish()
    net.restart(quadratic("fedswe", rounds=7))
    for i in range(4):
        net.restart_client(i)
    net.finish()
    assert net.server.t == 7
    assert verify(scratch / "server").exact


def test_a_finished_run_serves_both_models(scratch):
    net = Network(scratch, quadratic("fedswe"))
    net.finish()
    assert net.server.jobs([0, 1]) == {}
    assert net.server.close() == {}
    saved = Models.read(scratch / "server" / "model.safetensors").vectors
    assert (saved["server"] == net.server.server_model()).all()
    assert (saved["client_mean"] == net.server.client_mean()).all()
    assert (saved["client_mean"] - saved["server"]).abs().max() > 1e-3


@pytest.mark.parametrize("delivery", ["eager", "lazy"])
def test_a_client_that_cannot_write_takes_part_all_the_same(scratch, delivery):
    """What it should keep is sent to it with every job."""
    net = Network(scratch, quadratic("fedswe", p=1.0, delivery=delivery))
    (scratch / "clients" / ".client-1.safetensors.part").mkdir()  # can be neither removed nor written to
    for t in range(3):
        net.restart_client(1)
        assert net.round()[1].kind == "report"
        assert net.server.committed.merged == dict.fromkeys(range(4), t - 1)
        assert net.server.committed.rejected == {}
    assert not (scratch / "clients" / "client-1.safetensors").exists()
    assert verify(scratch / "server").exact


def test_a_full_disk_leaves_the_round_open(scratch, monkeypatch):
    net = Network(scratch, quadratic("fedswe", p=1.0))
    net.ask()
    (scratch / "server" / "versions").rename(scratch / "away")
    with pytest.raises(FedsweError, match="cannot write"):
        net.server.close()
    assert net.server.t == 0
    (scratch / "away").rename(scratch / "server" / "versions")
    net.close()
    assert len(net.server.committed.merged) == 4
    assert verify(scratch / "server").exact
