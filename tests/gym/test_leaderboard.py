"""The stored leaderboards and measurements come out as they are, byte for byte."""

import shutil
from pathlib import Path

import pytest

from fedswe.gym.gym import Gym, whole_gym
from fedswe.gym.measurements import FILE, KEY, GymStore
from fedswe.gym.page import heatmap, markdown
from fedswe.gym.settings import SCALES
from fedswe.gym.standings import results
from fedswe.plotting import render
from fedswe.results.table import select

GYM = Path(__file__).parents[2] / "experiments" / "gym"


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path))


def test_a_leaderboard_is_that_of_the_tables_also_without_traces():
    gym = whole_gym(Gym(SCALES["small"], [], [], GYM))
    found = results(gym)
    assert markdown(gym.scale, found, gym.rules) == (GYM / "LEADERBOARD-small.md").read_text()
    figure = render(*heatmap(found, gym.rules))
    numbers = [text.get_text() for text in figure.axes[0].texts]
    assert len(numbers) == sum(len(of.chosen) for of in found)
    assert numbers.count("0.0") >= len(found)  # the best rule of each setting


def test_measurements_that_are_published_again_leave_the_same_file(tmp_path):
    """The first run of a setting, as the worker that ran it would have left it."""
    shutil.copy(GYM / "small" / FILE, tmp_path)
    rows, key = select(tmp_path / FILE), list(KEY)
    setting = rows["setting"].iloc[0]
    first = rows.groupby(key, observed=True).get_group(tuple(rows[key].iloc[0]))
    (tmp_path / "work" / setting).mkdir(parents=True)
    first.drop(columns="setting").to_csv(tmp_path / "work" / setting / "run.csv", index=False)
    GymStore(tmp_path).publish(setting, "")
    assert not list(tmp_path.rglob("*.csv"))
    assert (tmp_path / FILE).read_bytes() == (GYM / "small" / FILE).read_bytes()
