"""The report on a gym has the numbers of its leaderboard; that on a reproduction those of its files."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedswe.errors import FedsweError, FedsweWarning
from fedswe.gym.gym import Gym
from fedswe.gym.measurements import FILE, KEY, as_texts
from fedswe.gym.rules import rules_named
from fedswe.gym.settings import SCALES, settings_of
from fedswe.gym.standings import results, standings
from fedswe.report import report_on
from fedswe.report.page import to_html
from fedswe.results.table import append, select
from fedswe_paper.command import write_reports
from fedswe_paper.selection import Selection
from tests.gym.rows import all_runs

STORED = Path(__file__).parents[2] / "experiments" / "results"


@pytest.fixture
def gym(tmp_path):
    """Made-up measurements of the smallest scale, complete."""
    scale = SCALES["ci"]
    found = Gym(scale, settings_of(scale), rules_named(["fedavg", "fedau", "fedswe:k=10"]), tmp_path)
    (tmp_path / "ci").mkdir()
    for i, setting in enumerate(found.settings):
        rows = [
            one
            for k, rule in enumerate(found.rules)
            for one in all_runs(
                scale, lambda trial: 0.5 - abs(trial.rate - 0.2), rule=rule.label, test=0.5 + i / 10 + k / 20,
                settings=setting.digest(found.outputs), curve=(0.1, 0.5),
            )
        ]  # fmt: skip
        append(tmp_path / "ci" / FILE, as_texts(rows).assign(setting=setting.name), KEY)
    return found


@pytest.mark.parametrize("part", ["ci", ""])
def test_standings_and_settings(gym, part):
    report = report_on([gym.out / part])
    assert report.summary[0] == "12 rounds, 2 seeds: this checks that the gym works, it ranks nothing."
    assert "±" not in str(report.sections[0].tables)
    (heatmap,) = report.images.values()
    assert heatmap.startswith(b"<?xml")
    first, second = report.sections
    expected = standings(results(gym), gym.rules)
    (table,) = first.tables.values()
    assert list(table["rule"]) == [rule.label for rule in expected["rule"]]
    assert list(table["in"]) == list(expected["in"])
    assert list(second.tables) == [s.name for s in gym.settings]


def test_measurements_of_other_settings_are_refused(gym):
    rows = select(gym.out / "ci" / FILE, setting=gym.settings[0].name)
    append(gym.out / "ci" / FILE, rows.assign(settings="0" * 12), KEY)
    with pytest.raises(FedsweError, match="measured with other settings"):
        report_on([gym.out / "ci"])


def test_a_rule_that_is_not_there_is_left_out(gym):
    rows = select(gym.out / "ci" / FILE, rule="fedau")
    append(gym.out / "ci" / FILE, rows.assign(rule="./nowhere.py:Rule"), KEY)
    with pytest.warns(FedsweWarning, match=r"left out of the page: .* there is no file"):
        report = report_on([gym.out / "ci"])
    assert "nowhere" not in str(report)


def test_claims_tables_and_curves_of_a_reproduction(tmp_path):
    (tmp_path / "small.parquet").symlink_to(STORED / "small.parquet")
    write_reports(["main-table", "fig6", "claims"], Selection("small", "released"), tmp_path)
    folder = tmp_path / "small-released"
    report = report_on([folder])
    (found,) = report.sections
    claims = pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(found.tables["claims"], claims)
    assert f"Verdicts on {len(claims)} claims: " in report.summary[0]
    assert f"holds: {(claims['status'] == 'holds').sum()}" in report.summary[0]
    assert "main-table" in found.tables
    rows = pd.read_csv(folder / "fig6-consensus.csv")
    curve = found.figures["fig6-consensus"]["data"][0]
    mine = rows[(rows["panel"] == rows["panel"][0]) & (rows["label"] == curve["name"])]
    np.testing.assert_allclose(curve["y"], mine["mean"])
    assert ("error_y" in curve) == (mine["seeds"].min() >= 3)


def test_the_whole_stored_reproduction_fits_in_a_page():
    assert len(to_html(report_on([STORED])).encode()) < 8_000_000


def test_a_damaged_table_is_one_line(tmp_path):
    shutil.copy(STORED / "small-released" / "claims.csv", tmp_path)
    (tmp_path / "fig1.csv").write_text("panel,label,x_name,x,y_name,mean,low,high,seeds\na,b,x,one,y,1,1,1,3\n")
    with pytest.raises(FedsweError, match="is damaged: give the command of the reproduction again"):
        report_on([tmp_path])
