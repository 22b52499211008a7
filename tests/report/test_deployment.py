"""The report on a deployment, from the ledger of a real server and its clients."""

import pytest

from fedswe.deploy import Rounds, status
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate
from fedswe.report.build import report_on
from fedswe.report.charts import Bars, Curves, HeatMap
from fedswe.report.html import to_html
from tests.deploy.parts import Network, digits
from tests.deploy.storm import in_memory
from tests.deploy.tampering import of_kind, rewrite


@pytest.fixture
def net():
    options = {"p": 1.0, "simulate_absence": False, "deadline": 10.0, "evaluate": Evaluate(every=1)}
    with in_memory() as folder:
        yield Network(folder, digits("fedswe", rounds=8, m=4, **options))


def test_rounds_clients_and_rejected_messages(net):
    net.round()
    net.round([0, 1])
    net.server.receive(1, b"nothing")
    net.server.change("evict", 0, "<b>bold</b>")
    net.round([1, 3])
    report = report_on([net.server.directory])
    (section,) = [s for s in report.sections if s.title == "Deployment server"]
    clients, rejected, merged, missed, rounds, traffic = section.blocks
    assert [row[:4] for row in clients.rows] == [
        ["0", "evicted", "2", "1"], ["1", "member", "3", "0"], ["2", "member", "1", "2"], ["3", "member", "3", "0"]
    ]  # fmt: skip
    assert clients.rows[0][5] == "<b>bold</b>"
    assert rejected.rows == [["1", "malformed", "1"]]
    assert isinstance(merged, HeatMap)
    assert merged.shares.tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 1], [1, 0, 0]]
    assert isinstance(missed, Bars)
    assert isinstance(rounds, Curves)
    echo = rounds.views["echo",].panel.series[0].seeds[0]
    assert echo == [1.0, 1.0, 1.5]
    assert traffic.title == "Traffic"
    assert "3 of 8 rounds committed, 4 clients" in " ".join(report.summary)
    alarms = [f"Alarm: {a.name}: {a.message}." for a in status.read_status(net.server.directory).alarms]
    assert [sentence for sentence in report.summary if sentence.startswith("Alarm")] == alarms
    assert "<b>bold" not in to_html(report)


def test_a_ledger_that_names_no_member(net):
    net.round()
    rewrite(net.server.directory, lambda lines: of_kind("round", lines)[0]["merged"].update({"9": -1}))
    with pytest.raises(FedsweError, match="names a client that is no member"):
        report_on([net.server.directory])


def test_its_scores_are_curves(net):
    rounds = Rounds(net.server, net.transport)
    rounds.step()
    rounds.step()
    report = report_on([net.server.directory])
    (section,) = [s for s in report.sections if s.title == "Scores over the rounds"]
    (series,) = section.blocks[0].views["test_accuracy", "server"].panel.series
    assert (series.label, series.x) == ("fedswe", [0, 1, 2])
    assert list(series.seeds[0]) == [100 * row["server_test_accuracy"] for row in rounds.evaluation.history.rows]
