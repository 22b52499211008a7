"""Who was available, which labels clients have, and how models serve them, checked against the experiment itself."""

import numpy as np
import pytest
import torch
from safetensors.torch import save

from fedswe.algorithms import FedAvg
from fedswe.comparison.measured_run import measured_runs
from fedswe.engine.base import availability_of
from fedswe.experiment.experiment import populate
from fedswe.gym.client_facts import accuracy_by_client
from fedswe.report.clients import client_sections
from fedswe.results.run_directory import RunDirectory
from tests.figures.runs import write_run
from tests.report.conftest import HEBREW, experiment


def section(*directories):
    (found,) = client_sections(measured_runs(directories))
    return found


def test_availability_and_labels_are_those_of_the_run(comparison):
    figures = section(comparison).figures
    (there,), (labels,) = (figures[title]["data"] for title in ("Who was available when", "Labels of each client"))
    problem, schedule = populate(experiment(FedAvg(), seed=3))
    mask = availability_of(schedule, 12)
    order = np.argsort(-mask.mean(0), kind="stable")
    assert np.array_equal(there["z"], 100 * mask.T[order])
    assert list(there["x"]) == [str(t) for t in range(1, 13)]
    assert there["y"][0] == f"client {order[0]}, available in {100 * mask[:, order[0]].mean():.0f} %"
    np.testing.assert_allclose(labels["z"], 100 * problem.realised[order], rtol=1e-5)


def test_accuracy_by_client(comparison):
    found = section(comparison)
    clouds = {cloud["name"]: cloud["y"] for cloud in found.figures["Accuracy against availability"]["data"]}
    assert {f"{HEBREW}, server", f"{HEBREW}, client mean"} <= set(clouds)
    shown = clouds[f"{HEBREW}, server"]
    (table,) = found.tables.values()
    (row,) = table[(table["runs"] == HEBREW) & (table["model"] == "server")].to_dict("records")
    assert float(row["all clients"]) == pytest.approx(np.mean(shown), abs=0.06)
    problem, _ = populate(experiment(FedAvg(), seed=3))
    run = next((comparison / "runs").glob(f"{HEBREW.split()[0]}*seed3"))
    accuracy = 100 * accuracy_by_client(problem, RunDirectory(run).models().vectors["server"])
    assert sorted(shown) == pytest.approx(sorted(accuracy))


@pytest.mark.parametrize("clients", ["abc", [1], 10**12])
def test_clients_that_are_no_number_or_too_many(clients, tmp_path):
    (text,) = section(write_run(tmp_path / "a", task={"name": "digits", "clients": clients})).paragraphs
    assert text.startswith("The clients of these runs cannot be built again here: ")


def test_damaged_models_and_a_task_that_is_not_there(tmp_path):
    damaged = write_run(tmp_path / "a")
    (damaged / "model.safetensors").write_bytes(save({"server": torch.zeros(650)}, {"models": "5", "tensors": "[]"}))
    for run in (damaged, write_run(tmp_path / "b", task={"name": "./nowhere.py:Own"})):
        (text,) = section(run).paragraphs
        assert text.startswith("The clients of these runs cannot be built again here: ")


def test_of_many_rounds_the_first_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("fedswe.report.clients._ROUNDS", 20)
    (there,) = section(write_run(tmp_path / "a")).figures["Who was available when"]["data"]
    assert there["z"].shape == (30, 20)


def test_of_many_clients_some_are_drawn_and_many_rounds_are_averaged(tmp_path, monkeypatch):
    monkeypatch.setattr("fedswe.report.clients._ROWS", 10)
    monkeypatch.setattr("fedswe.report.clients._COLUMNS", 8)
    (there,) = section(write_run(tmp_path / "a")).figures["Who was available when"]["data"]
    assert there["z"].shape == (10, 8)
    assert there["x"][-1] == "36–40"
    assert (np.diff(there["z"].mean(1)) <= 0).all()  # the most available first
