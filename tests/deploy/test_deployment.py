"""A deployment is one TOML file; what cannot be deployed is refused in one line, before anything is written."""

from dataclasses import replace

import pytest

from fedswe.algorithms import FedAvgKnown
from fedswe.availability import Mask, Stationary
from fedswe.core.algorithm import Job
from fedswe.core.local import Local
from fedswe.core.records import Model
from fedswe.deploy import ClientEndpoint, Deployment, ServerEndpoint
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Experiment, Record
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import quadratic


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_file_gives_the_deployment_back(tmp_path, name):
    deployment = quadratic(name, delivery="lazy", max_norm=3.5, deadline=7.0, min_clients=2, trail=True)
    deployment.save(tmp_path)
    again = Deployment.load(tmp_path / "deployment.toml")
    assert again == deployment
    assert again.digest() == deployment.digest()
    assert Deployment.load(tmp_path / "deployment.toml", ["deploy.max_norm=auto"]).max_norm == "auto"


def test_the_digest_names_what_both_ends_must_share():
    deployment = quadratic("fedswe")
    experiment = deployment.experiment
    same = [replace(deployment, delivery="lazy"), replace(deployment, experiment=replace(experiment, rounds=99))]
    other = [
        replace(deployment, simulate_absence=False),
        replace(deployment, experiment=replace(experiment, seed=6)),
        replace(deployment, experiment=replace(experiment, dtype="float64")),
        replace(deployment, experiment=replace(experiment, local=replace(experiment.local, lr=0.01))),
        replace(deployment, experiment=replace(experiment, algorithm=replace(experiment.algorithm, k=3.0))),
        replace(deployment, experiment=replace(experiment, availability=Stationary(p=0.5))),
    ]
    assert {p.digest() for p in same} == {deployment.digest()}
    assert len({p.digest() for p in other} | {deployment.digest()}) == 7


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("deploy.delivery=soon", "deploy.delivery"),
        ("deploy.deadline=0", "deadline must be positive"),
        ("deploy.max_norm=-1", "max_norm"),
        ("deploy.min_clients=-1", "min_clients"),
        ("deploy.dedline=3", "did you mean deadline"),
        ("deploy=3", "must be a section"),
        ("deploy.experiment=3", "unknown key deploy.experiment"),
        ("algorithm.name=fedavg_known", "no real client knows"),
        ("availability.stream=legacy", "keyed"),
    ],
)
def test_mistakes_get_one_line(tmp_path, line, complaint):
    replace(quadratic("fedswe"), simulate_absence=False).save(tmp_path)
    with pytest.raises(FedsweError, match=complaint) as caught:
        Deployment.load(tmp_path / "deployment.toml", [line])
    assert "\n" not in str(caught.value)


def test_known_probabilities_are_demanded_of_a_mask(tmp_path):
    (tmp_path / "mask.csv").write_text("1,1,1,1\n" * 12)
    deployment = quadratic("fedavg_known")
    deployment = replace(
        deployment, experiment=replace(deployment.experiment, availability=Mask(file=str(tmp_path / "mask.csv")))
    )
    with pytest.raises(FedsweError, match="prob_file"):
        ServerEndpoint.open(tmp_path / "server", deployment)
    assert not (tmp_path / "server").exists()


class Restless(FedAvgKnown):
    """Trains while absent from the server's current model, which an absent client cannot know."""

    needs_probabilities = False
    trains_while_absent = True

    def plan(self, c, d, at):
        return Job(Model(d.x).x)


def test_what_an_absent_client_cannot_compute_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "restless", Restless)
    with pytest.raises(FedsweError, match="cannot be deployed"):
        ServerEndpoint.open(tmp_path / "server", quadratic("restless"))
    assert not (tmp_path / "server").exists()


def test_a_quorum_that_can_never_come_is_refused(tmp_path):
    with pytest.raises(FedsweError, match="a round needs 5 clients, the task has 4"):
        ServerEndpoint.open(tmp_path / "server", quadratic("fedswe", m=4, min_clients=5))
    assert not (tmp_path / "server").exists()


def test_a_client_number_must_exist(tmp_path):
    deployment = quadratic("fedswe")
    with pytest.raises(FedsweError, match="there is no client 4"):
        ClientEndpoint.open(tmp_path, deployment, 4, deployment.problem())
    server = ServerEndpoint.open(tmp_path / "server", deployment)
    with pytest.raises(FedsweError, match="there is no client -1"):
        server.jobs([-1])
    server.release()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"record": Record(columns=["consensus"])}, "record.columns and record.trajectory need a simulation"),
        ({"record": Record(trajectory=True)}, "record.columns and record.trajectory need a simulation"),
        ({"local": Local(schedule="cosine")}, "local.schedule=cosine needs local.decay_rounds here"),
    ],
)
def test_what_a_deployment_does_not_do_is_refused(part, message):
    with pytest.raises(FedsweError, match=message):
        Deployment(Experiment(**part))
