"""A real MLflow store in a file."""

import importlib.util

import pytest

from fedswe import resume, run
from fedswe.experiment.configuration import load
from fedswe.experiment.runner import StopRun

pytestmark = [
    # It is imported where it is used: every worker that collects the tests would take seconds for it.
    pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="MLflow is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of SQLAlchemy, about MLflow
]

WORDS = ["task.name=quadratic", "availability.p=0.5", "rounds=20", "evaluate.every=2", "record.checkpoint=5"]


@pytest.fixture
def client(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)  # MLflow would put artifacts here
    return mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")


def runs(client, experiment):
    return client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


def logged(client, run_id, name):
    return [(m.step, m.value) for m in client.get_metric_history(run_id, name)]


@pytest.mark.slow
def test_a_run_that_is_stopped_killed_and_resumed_is_one_mlflow_run(tmp_path, client):
    def stop(t, row):
        if t == 3:
            raise StopRun
        if t == 8:
            raise RuntimeError  # without a new checkpoint: the last one is of round 5

    value = load(None, [*WORDS, "track=mlflow:experiment=trials"])
    with pytest.raises(StopRun):
        run(value, tmp_path / "one", stop)
    (found,) = runs(client, "trials")
    assert found.info.status == "KILLED"
    assert found.info.run_name == "one"
    assert found.data.params["local.lr"] == str(value.local.lr)
    assert found.data.params["algorithm.name"] == "fedswe"
    assert not any("track" in key for key in found.data.params)
    with pytest.raises(RuntimeError):
        resume(tmp_path / "one", stop)
    result = resume(tmp_path / "one")
    (found,) = runs(client, "trials")
    assert found.info.status == "FINISHED"
    for name in ("available", "server_distance"):
        assert logged(client, found.info.run_id, name) == [(r["round"], r[name]) for r in result.history.rows]
    assert [p.name for p in (tmp_path / "one").iterdir() if "mlflow" in p.name] == ["mlflow.json"]


@pytest.mark.slow
def test_a_store_that_cannot_be_reached_does_not_stop_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/nowhere/deep/mlflow.db?mode=ro")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret-of-the-test")
    (tmp_path / "nowhere").write_text("a file, not a folder")
    with pytest.warns(match="the tracker mlflow failed"):
        result = run(load(None, [*WORDS, "track=mlflow"]), tmp_path / "run")
    assert result.history.last["round"] == 20
    for file in (tmp_path / "run").rglob("*"):
        assert b"secret-of-the-test" not in (file.read_bytes() if file.is_file() else b"")
