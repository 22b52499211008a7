"""A federation in the report: its alarms first, its last value, and nothing of other programs' databases."""

import sqlite3

import pytest

from fedswe.errors import FedsweError
from fedswe.report import report_on, write_report
from tests import problems

pytest.importorskip("flwr")


def test_alarms_first_and_the_last_value_beside_the_mean(tmp_path):
    from flwr.app import MetricRecord

    from fedswe.flower import Strategy
    from tests.flower.apps import arrays, client_app
    from tests.flower.grid import LocalGrid

    problem = problems.quadratic(4, d=5)
    grid = LocalGrid(client_app(problem), 4)
    grid.instead[1] = lambda message, reply: 1 / 0
    strategy = Strategy("fedavg", names=True, seed=3, store=tmp_path / "federation.db", fraction_evaluate=0.0)
    strategy.start(grid, arrays(problem.start), 4, evaluate_fn=lambda t, x: MetricRecord({"accuracy": t / 10}))
    report = report_on([tmp_path])
    assert report.title == "fedavg after 4 rounds: accuracy at the server 0.4"
    assert report.summary == ["Mean over the last 4 rounds: 0.25.", "3 of 4 clients were merged in the last round."]
    (alarm,) = report.alarms
    assert alarm.startswith("Alarm: client 1 failed 4 times in a row: ")
    page = write_report([tmp_path], tmp_path / "report.html").read_text()
    assert page.index(">Alarm: client 1") < page.index("Mean over the last")


def test_databases_of_other_programs_are_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "mlflow.db") as other:
        other.execute("CREATE TABLE fact (name TEXT)")
    before = (tmp_path / "mlflow.db").read_bytes()
    with pytest.raises(FedsweError, match="does not hold"):
        report_on([tmp_path])
    assert (tmp_path / "mlflow.db").read_bytes() == before
