"""The report on a reproduction, from the files of the stored one."""

import csv
import shutil
from pathlib import Path

import pytest

from fedswe.errors import FedsweError
from fedswe.report.build import report_on
from fedswe.report.charts import Curves
from fedswe.report.html import to_html
from fedswe_paper.command import write_reports
from fedswe_paper.selection import Selection

STORED = Path(__file__).parents[2] / "experiments" / "results"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The reports of the runs at small scale."""
    out = tmp_path_factory.mktemp("reproduction")
    (out / "small.parquet").symlink_to(STORED / "small.parquet")
    names = ["main-table", "fig3", "fig6", "fig8", "claims"]
    write_reports(names, Selection("small", "released"), out)
    return out / "small-released"


def test_claims_tables_and_figures(folder):
    report = report_on([folder])
    assert [section.title for section in report.sections] == [
        "Claims, small-released", "Tables, small-released", "Figures, small-released"
    ]  # fmt: skip
    with (folder / "claims.csv").open(newline="") as lines:
        claims = list(csv.DictReader(lines))
    (table,) = report.sections[0].blocks
    assert [row[:2] for row in table.rows] == [[claim["id"], claim["status"]] for claim in claims]
    holds = sum(claim["status"] == "holds" for claim in claims)
    assert f"verdicts on {len(claims)} claims: " in report.summary[0]
    assert f"holds: {holds}" in report.summary[0]
    tables = {block.title: block for block in report.sections[1].blocks}
    assert ["fashion_mnist", "stationary", "FedSWE, k = 0", "84.0 ± 0.2", "82.5 ± 0.1"] in [
        list(row) for row in tables["main-table"].rows
    ]


def test_curves_are_those_of_the_file(folder):
    charts = {block.title: block for block in report_on([folder]).sections[2].blocks}
    assert all(isinstance(chart, Curves) for chart in charts.values())
    for name in ("fig8-by-k", "fig6-consensus"):  # mean and band, the second of logarithms
        with (folder / f"{name}.csv").open(newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if row["mean"]]
        drawn = charts[name].json()
        first = drawn["views"][rows[0]["panel"]]["series"][0]
        mine = [row for row in rows if (row["panel"], row["label"]) == (rows[0]["panel"], first["name"])]
        for part in ("mean", "low", "high"):
            shown = [value for value in first[part] if value is not None]
            assert shown == pytest.approx([float(row[part]) for row in mine], rel=1e-4)


def test_train_and_test_accuracy_of_a_panel_are_two_charts(folder):
    charts = {block.title: block for block in report_on([folder]).sections[2].blocks}
    views = charts["fig3-accuracy"].json()["views"]
    panel = "FedAvg, fashion_mnist"
    assert list(views) == [f"{panel}, train accuracy, %", f"{panel}, test accuracy, %"]
    for view in views.values():
        for series in view["series"]:
            at = charts["fig3-accuracy"].json()["positions"][series["x"]["x"]]
            assert at == sorted(set(at))


def test_the_whole_stored_reproduction_fits_in_a_page():
    assert len(to_html(report_on([STORED])).encode()) < 6_000_000


def test_a_damaged_table_is_one_line(tmp_path):
    shutil.copy(STORED / "small-released" / "claims.csv", tmp_path)
    (tmp_path / "main-table.csv").write_text("algorithm,column,ours_mean,ours_std,ours_seeds\na,b\n")
    with pytest.raises(FedsweError, match=r"main-table.csv is damaged"):
        report_on([tmp_path])
