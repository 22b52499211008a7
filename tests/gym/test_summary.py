"""The measurements that come with the package are those of the tables.

To write them again after the gym has measured: `python -m tests.gym.test_summary`.
"""

import json
from pathlib import Path

import pytest
from pydantic_core import from_json, to_json

import fedswe.gym
from fedswe.analysis.description import Described, describe
from fedswe.availability.statistics import Record
from fedswe.engine.base import availability_of
from fedswe.experiment.experiment import populate
from fedswe.gym.advice import FEATURES, distance, features, stored
from fedswe.gym.gym import Gym
from fedswe.gym.page import entry_json
from fedswe.gym.rules import RULES, Rule, rules_named
from fedswe.gym.settings import SCALES, Setting, missing_traces, settings_of
from fedswe.gym.standings import results
from fedswe.gym.trial import Trial

GYM = Path(__file__).parents[2] / "experiments" / "gym"
KEPT = ("rule", "output", "trial", "test", "regret", "regret_half_width")
ROUNDS = 1000  # as many as a log of a week has: in fewer, clients that come rarely look like some that never come

DIGITS = 8  # settings on the digits without recorded devices that are measured
RECOMMENDED = "fedexp"  # see docs/which-rule.md


def features_of(setting):
    """Of the clients of the first seed of a setting."""
    experiment = setting.experiment(Rule("fedavg").table, Trial(1.0), setting.scale.seeds[0], ("server",))
    _, schedule = populate(experiment)
    record = Record(availability_of(schedule, ROUNDS))
    return features(describe(Described(setting.name, record)).values)


def measured(tasks=()):
    """The settings of the small scale whose traces are here."""
    settings = settings_of(SCALES["small"], tasks)
    gone = missing_traces(settings)
    return results(Gym(SCALES["small"], [s for s in settings if s not in gone], rules_named(RULES["small"]), GYM))


def timed(result):
    return result.setting.availability == "flash-seconds"


def summary(found):
    """The recommended and the best rule of every setting in which all rules have had all their runs.

    Without those in simulated time: what is compared with them is described in rounds of one length.
    """
    settings = []
    for result in found:
        if result.incomplete or timed(result) or RECOMMENDED not in result.chosen.index:
            continue
        rules = dict.fromkeys((RECOMMENDED, result.best["label"]))
        entries = (entry_json(result, rule) for rule in rules)
        settings.append({
            "task": result.setting.task,
            "availability": result.setting.availability,
            "features": {name: round(value, 4) for name, value in features_of(result.setting).items()},
            "best": result.best["label"],
            "rules": [{name: entry[name] for name in KEPT} for entry in entries],
        })  # fmt: skip
    return from_json(to_json({"recommended": RECOMMENDED, "settings": settings}, inf_nan_mode="null"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Results on the digits, whose data are here, without recorded devices, whose traces are not; and their summary."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSWE_TRACES", str(tmp_path_factory.mktemp("traces")))
        found = measured(("digits",))
        return found, summary(found)["settings"]


def test_the_stored_summary_is_that_of_the_tables(digits):
    here = {(s["task"], s["availability"]): s for s in digits[1]}
    known = {(s["task"], s["availability"]): s for s in stored()["settings"]}
    assert len(here) == DIGITS
    assert here.items() <= known.items()


def test_the_recommended_rule_is_one_of_both_scales():
    assert stored()["recommended"] == RECOMMENDED
    assert RECOMMENDED in RULES["small"]
    assert RECOMMENDED in RULES["full"]


def test_a_setting_without_all_runs_is_left_out(digits):
    found, settings = digits
    assert len(settings) == len([r for r in found if not r.incomplete and not timed(r)])
    assert pytest.approx(0) == min(e["regret"] for s in settings for e in s["rules"])


def test_features_of_a_setting_are_those_of_its_description():
    found = features_of(Setting(SCALES["ci"], "digits", "turns"))
    assert found.keys() == FEATURES.keys()
    assert distance(found, found) == 0
    assert found["autocorrelation after one round"] != 0


if __name__ == "__main__":
    text = json.dumps(summary(measured()), indent=1)
    Path(fedswe.gym.__file__).with_name("summary.json").write_text(text + "\n")
