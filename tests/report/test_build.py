"""Which directories a report can be made of, and what it says of others."""

import csv
import json
import shutil

import pytest

import fedswe
from fedswe.algorithms import FedAvg
from fedswe.clock import Seconds
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Record
from fedswe.report.build import report_on
from fedswe.report.charts import Curves
from tests.figures.runs import write_run
from tests.report.conftest import EMOJI, experiment


def titles(report):
    return [section.title for section in report.sections]


def curves_of(report, title):
    (section,) = [s for s in report.sections if s.title == title]
    (chart,) = [block for block in section.blocks if isinstance(block, Curves)]
    return chart


def test_an_empty_directory(tmp_path):
    with pytest.raises(FedsweError, match="does not hold a run, a comparison, a gym or a reproduction"):
        report_on([tmp_path])
    with pytest.raises(FedsweError, match="there is no directory"):
        report_on([tmp_path / "none"])


@pytest.mark.parametrize("damage", ["", "round,server_test_accuracy\n1,x\n", "round,server_test_accuracy\n"])
def test_a_damaged_history(damage, tmp_path):
    run = write_run(tmp_path / "a")
    (run / "history.csv").write_text(damage)
    with pytest.raises(FedsweError, match=r"damaged|no rounds"):
        report_on([run])


def test_a_comparison_and_a_run_in_one_chart(comparison, tmp_path):
    fedswe.run(experiment(FedAvg(lr=0.5), seed=3), out=tmp_path / "own")
    report = report_on([comparison, tmp_path / "own"])
    chart = curves_of(report, "Scores over the rounds")
    assert len(chart.views["test_accuracy", "server"].panel.series) == 4
    assert report.summary[0].startswith("7 runs of 4 kinds")


def test_simulated_time_and_consensus(tmp_path):
    timed = experiment(FedAvg(), clock=Seconds(slot_seconds=60.0), record=Record(columns=["consensus"]))
    fedswe.run(timed, out=tmp_path / "timed")
    report = report_on([tmp_path / "timed"])
    scores = curves_of(report, "Scores over the rounds")
    assert list(scores.abscissas) == ["rounds", "simulated", "bytes"]
    assert scores.abscissas["simulated"] == "simulated seconds"
    more = curves_of(report, "Consensus error, echoes and reports")
    assert list(more.switches[0].options)[:2] == ["consensus_clients", "consensus_augmented"]


def test_bytes_only_where_all_runs_have_them(tmp_path):
    with pytest.warns(UserWarning, match="not finished"):
        report = report_on([write_run(tmp_path / "a"), write_run(tmp_path / "b", 4, finished=False)])
    assert list(curves_of(report, "Scores over the rounds").abscissas) == ["rounds"]


def test_a_damaged_run_json_is_left_out(comparison, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(comparison, copy)
    for file, text in zip(copy.glob("runs/*/run.json"), ["{", *["[" * 100_000] * 5], strict=True):
        file.write_text(text)
    last = report_on([copy]).sections[-1]
    assert last.title == "How to reproduce this"
    assert [block.lines[0][:40] for block in last.blocks] == ["Each run can be run again from its confi"]


def test_long_configurations_and_commands_are_shortened(tmp_path):
    run = write_run(tmp_path / "a", task={"name": "digits", "clients": 30})
    (run / "config.toml").write_text((run / "config.toml").read_text() + "#" * 100_000)
    (run / "run.json").write_text(json.dumps({"command": ["fedswe", "x" * 100_000], "commit": "y" * 100_000}))
    *_, (_, listing), (command, _, table) = (section.blocks for section in report_on([run]).sections)
    assert len(listing.text) == len(command.text) == 20_001
    assert [len(value) for _, value in table.rows] == [201]


def test_where_it_comes_from(comparison):
    report = report_on([comparison])
    command, _, table = report.sections[-1].blocks
    assert command.text
    assert {"commit", "Python", "fedswe", "torch", "processor"} <= {row[0] for row in table.rows}
    listings = report.sections[-2].blocks[1:]
    assert f"{EMOJI}, seed 3" in [listing.title for listing in listings]
    assert all('name = "digits"' in listing.text for listing in listings)


def test_many_evaluations_are_thinned(tmp_path):
    runs = [
        write_run(tmp_path / str(i), 3, 0.9, every=1, rounds=4000, algorithm={"name": "fedswe", "k": float(i)})
        for i in range(12)
    ]
    chart = curves_of(report_on(runs), "Scores over the rounds")
    drawn = chart.json()
    assert chart.step > 1
    points = [len(series["mean"]) for view in drawn["views"].values() for series in view["series"]]
    assert sum(points) <= 70_000
    lasts = {drawn["positions"][s["x"]["rounds"]][-1] for v in drawn["views"].values() for s in v["series"]}
    assert lasts == {4000}


def test_final_scores_are_those_of_the_comparison(comparison):
    """One place for each number: the table of the page has those of compare_summary.csv."""
    with (comparison / "compare_summary.csv").open(newline="") as lines:
        summary = {(row["algorithm"], row["model"]): row for row in csv.DictReader(lines)}
    (table,) = report_on([comparison]).sections[0].blocks
    for name, server, _, mean, _ in table.rows:
        for cell, model in ((server, "server"), (mean, "client_mean")):
            row = summary[name, model]
            expected = [f"{100 * float(row[f'test_accuracy_{part}']):.1f}" for part in ("mean", "std")]
            assert cell.text == " ± ".join(expected)
