"""Who was available, which labels clients have, and how models serve them, checked against the experiment itself."""

import numpy as np
import pytest
import torch
from safetensors.torch import save

import fedswe
from fedswe.algorithms import FedAvg
from fedswe.availability import Mask
from fedswe.engine.base import availability_of
from fedswe.experiment.experiment import Experiment, populate
from fedswe.figures.measured import measured_runs
from fedswe.gym.client_facts import accuracy_by_client
from fedswe.report.blocks import Text
from fedswe.report.build import report_on
from fedswe.report.charts import Bars, HeatMap, Points
from fedswe.report.clients import client_sections
from fedswe.results.run_directory import RunDirectory
from fedswe.tasks import Quadratic
from tests.figures.runs import write_run
from tests.report.conftest import HEBREW, experiment


def blocks_of(*directories):
    (section,) = client_sections(measured_runs(directories))
    return section.blocks


def test_availability_and_labels_are_those_of_the_run(comparison):
    blocks = blocks_of(comparison)
    there, labels = (block for block in blocks if isinstance(block, HeatMap))
    problem, schedule = populate(experiment(FedAvg(), seed=3))
    mask = availability_of(schedule, 12)
    order = np.argsort(-mask.mean(0), kind="stable")
    assert np.array_equal(there.shares, mask.T[order])
    assert there.columns == [str(t) for t in range(1, 13)]
    assert there.rows[0] == f"client {order[0]}, available in {100 * mask[:, order[0]].mean():.0f} % of the rounds"
    assert labels.shares == pytest.approx(problem.realised[order])


def test_rounds_missed(tmp_path):
    (tmp_path / "mask.csv").write_text("1,1\n0,1\n0,1\n1,1\n")
    value = Experiment(
        rounds=4,
        algorithm=FedAvg(),
        task=Quadratic(centers=[[0.0], [1.0]]),
        availability=Mask(str(tmp_path / "mask.csv")),
    )
    fedswe.run(value, out=tmp_path / "run")
    (missed,) = [block for block in blocks_of(tmp_path / "run") if isinstance(block, Bars)]
    assert missed.labels == ["0", "1", "2"]  # five reports without a gap, one after two rounds
    assert missed.values == pytest.approx([100 * 5 / 6, 0, 100 / 6])


def test_accuracy_by_client(comparison):
    blocks = blocks_of(comparison)
    (points,) = [block for block in blocks if isinstance(block, Points)]
    assert set(points.switches[1].options) == {"server", "client_mean"}
    table, shown = blocks[-1], points.views[HEBREW, "server"]
    row = next(row for row in table.rows if list(row[:2]) == [HEBREW, "server"])
    assert float(row[2]) == pytest.approx(np.mean(shown), abs=0.06)
    problem, _ = populate(experiment(FedAvg(), seed=3))
    models = RunDirectory(next((comparison / "runs").glob(f"{HEBREW.split()[0]}*seed3"))).models()
    found = 100 * accuracy_by_client(problem, models.vectors["server"])
    assert sorted(shown) == pytest.approx(sorted(found))


def test_a_task_without_labels(tmp_path):
    value = Experiment(rounds=3, algorithm=FedAvg(), task=Quadratic(centers=[[0.0], [1.0]]))
    with pytest.warns(UserWarning, match="no labels"):
        fedswe.run(value, out=tmp_path / "run")
    blocks = blocks_of(tmp_path / "run")
    assert [type(block) for block in blocks] == [Text, HeatMap, Bars, Text]
    assert "The task has no labels" in blocks[-1].lines[0]


@pytest.mark.parametrize("clients", ["abc", [1], 10**12])
def test_clients_that_are_no_number_or_too_many(clients, tmp_path):
    report = report_on([write_run(tmp_path / "a", task={"name": "digits", "clients": clients})])
    (text,) = next(section for section in report.sections if section.title == "Clients").blocks
    assert text.lines[0].startswith("The clients of these runs cannot be built again here: ")


def test_of_many_rounds_the_first_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("fedswe.report.clients._ROUNDS", 20)
    first, there, *_ = blocks_of(write_run(tmp_path / "a"))
    assert first.lines == ["Clients of seed 3, sorted by availability in the first 20 rounds."]
    assert there.shares.shape == (30, 20)


def test_damaged_models(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "model.safetensors").write_bytes(save({"server": torch.zeros(650)}, {"models": "5", "tensors": "[]"}))
    (text,) = blocks_of(run)
    assert text.lines[0].startswith("The clients of these runs cannot be built again here: ")


def test_a_task_that_is_not_there(tmp_path):
    run = write_run(tmp_path / "a", task={"name": "./nowhere.py:Own"})
    (text,) = blocks_of(run)
    assert text.lines[0].startswith("The clients of these runs cannot be built again here: ")


def test_many_clients_and_rounds_are_averaged(tmp_path):
    value = Experiment(rounds=1, algorithm=FedAvg(), task=Quadratic(centers=[[float(i)] for i in range(500)]))
    with pytest.warns(UserWarning, match="no labels"):
        fedswe.run(value, out=tmp_path / "run")
    history = tmp_path / "run" / "history.csv"
    head, first, last = history.read_text().splitlines()
    rest = last.partition(",")[2]
    history.write_text("\n".join([head, first, f"1000,{rest}"]) + "\n")
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("rounds = 1\n", "rounds = 1000\n"))
    (there,) = [block for block in blocks_of(tmp_path / "run") if isinstance(block, HeatMap)]
    assert there.shares.shape == (200, 400)
    assert (np.diff(there.shares.mean(1)) < 0.05).all()  # the most available first
    assert there.rows[0].startswith("2 clients, available in ")
