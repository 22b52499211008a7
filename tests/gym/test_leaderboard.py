"""The stored leaderboards and measurements come out as they are, byte for byte."""

import shutil
from pathlib import Path

import pytest

from fedswe.gym.gym import Gym, whole_gym
from fedswe.gym.measurements import FILE, GymStore
from fedswe.gym.page import markdown
from fedswe.gym.settings import SCALES
from fedswe.gym.standings import labels, results
from fedswe.results.table import select

KEY = ["setting", "rule", "rate", "seed"]
GYM = Path(__file__).parents[2] / "experiments" / "gym"


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path))


@pytest.mark.parametrize("scale", ["small", "full"])
def test_a_leaderboard_is_that_of_the_tables_also_without_traces(scale):
    gym = whole_gym(Gym(SCALES[scale], [], [], GYM))
    page = markdown(gym.scale, results(gym), gym.rules, labels(gym))
    assert page == (GYM / f"LEADERBOARD-{scale}.md").read_text()


@pytest.mark.parametrize("part", ["full", "candidates/small", "candidates/full"])
def test_measurements_that_are_published_again_leave_the_same_file(part, tmp_path):
    """The first run of a setting, as the worker that ran it would have left it."""
    shutil.copy(GYM / part / FILE, tmp_path)
    rows = select(tmp_path / FILE)
    setting = rows["setting"].iloc[0]
    first = rows.groupby(KEY, observed=True).get_group(tuple(rows[KEY].iloc[0]))
    (tmp_path / "work" / setting).mkdir(parents=True)
    first.drop(columns="setting").to_csv(tmp_path / "work" / setting / "run.csv", index=False)
    GymStore(tmp_path).publish(setting, "")
    assert not list(tmp_path.rglob("*.csv"))
    assert (tmp_path / FILE).read_bytes() == (GYM / part / FILE).read_bytes()
