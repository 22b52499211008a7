"""The measurements that come with the package are those of the tables."""

from pathlib import Path

import pytest

from fedswe.gym.advice import RECOMMENDED, stored
from fedswe.gym.rules import RULES
from fedswe.gym.summary import measured, summary

GYM = Path(__file__).parents[2] / "experiments" / "gym"


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path))


def test_the_stored_summary_is_that_of_the_tables():
    """On the digits, whose data are here, without recorded devices, whose traces are not."""
    here = {(s["task"], s["availability"]): s for s in summary(measured(GYM, ("digits",)))["settings"]}
    known = {(s["task"], s["availability"]): s for s in stored()["settings"]}
    assert len(here) == 9
    assert here.items() <= known.items()


def test_the_recommended_rule_is_one_of_both_scales():
    assert stored()["recommended"] == RECOMMENDED
    assert RECOMMENDED in RULES["small"]
    assert RECOMMENDED in RULES["full"]


def test_a_setting_without_all_trials_is_left_out():
    found = measured(GYM, ("digits",))
    assert len(summary(found)["settings"]) == len([r for r in found if not r.incomplete and not r.setting.timed])
    assert pytest.approx(0) == min(e["regret"] for s in summary(found)["settings"] for e in s["rules"])
