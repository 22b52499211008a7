"""Trackers of a deployment: its server gives them the rows of its history."""

from dataclasses import replace

import pytest

from fedswe.deploy.audit.verify import verify
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.memory_transport import run_in_memory
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate
from tests.deploy.parts import quadratic

HERE = "tests.tracking.trackers"


def tracked(rounds, *track, **options):
    value = quadratic("fedswe", rounds=rounds, evaluate=Evaluate(every=2), **options)
    return replace(value, experiment=replace(value.experiment, track=list(track)))


def test_a_restarted_server_continues(tmp_path):
    for rounds in (4, 8):
        run_in_memory(tracked(rounds, f"{HERE}:Lines"), tmp_path / "run")
    assert [line.split()[0] for line in (tmp_path / "run" / "tracked.txt").read_text().splitlines()] == [
        "start", "0", "2", "4", "finished", "start", "0", "2", "4", "6", "8", "finished",
    ]  # fmt: skip


def test_the_same_models_and_a_clean_audit(tmp_path):
    for name, track in (("plain", []), ("tracked", ["tensorboard", f"{HERE}:Lines"])):
        run_in_memory(tracked(6, *track, trail=True), tmp_path / name)
        assert verify(tmp_path / name).passed
    lines = [(tmp_path / n / "history.csv").read_text().splitlines()[-1] for n in ("plain", "tracked")]
    assert lines[0].rsplit(",", 1)[0] == lines[1].rsplit(",", 1)[0]
    assert list((tmp_path / "tracked" / "tensorboard").iterdir())


def test_digests_do_not_depend_on_trackers():
    plain, with_one = tracked(6), tracked(6, "mlflow")
    assert (plain.digest(), plain.scores_digest()) == (with_one.digest(), with_one.scores_digest())
    assert isinstance(with_one, Deployment)
    assert "mlflow" in with_one.dump()


def test_a_failing_tracker_is_in_the_log_of_the_server(tmp_path):
    run_in_memory(tracked(4, f"{HERE}:Failing:at=log"), tmp_path / "run")
    log = (tmp_path / "run" / "server.log").read_text()
    assert log.count("round 0 is lost") == 1
    assert log.count("Failing:at=log failed") == 1


def test_an_unknown_tracker_is_refused_before_the_first_round(tmp_path):
    with pytest.raises(FedsweError, match="unknown tracker 'tensorbord'"):
        run_in_memory(tracked(4, "tensorbord"), tmp_path / "run")
