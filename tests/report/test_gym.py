"""The report on a gym has the numbers of its leaderboard."""

import io

import pandas as pd
import pytest

from fedswe.errors import FedsweError, FedsweWarning
from fedswe.gym.gym import Gym
from fedswe.gym.measured import to_csv
from fedswe.gym.rules import rules_named
from fedswe.gym.settings import SCALES, settings_of
from fedswe.gym.standings import results, standings
from fedswe.gym.store import FILE
from fedswe.report.build import report_on
from fedswe.report.charts import Curves, Intervals
from fedswe.results.table import append, select
from tests.gym.rows import row

KEY = ["setting", "rule", "rate", "seed"]


@pytest.fixture
def gym(tmp_path):
    """Made-up measurements of the smallest scale, complete."""
    scale = SCALES["ci"]
    found = Gym(scale, settings_of(scale), rules_named(["fedavg", "fedau", "fedswe:k=10"]), tmp_path)
    (tmp_path / "ci").mkdir()
    rates = [rate * 10**i for i in range(3) for rate in scale.rates][: scale.most_trials]
    for i, setting in enumerate(found.settings):
        rows = [
            row(
                rule=rule.label, rate=rate, seed=seed, output=output, settings=setting.digest(found.outputs),
                held_out=0.5 - abs(j - 1) / 10, test=0.5 + i / 10 + k / 20 + seed / 1000, curve=(0.1, 0.5),
                rounds=(0, 10),
            )
            for k, rule in enumerate(found.rules)
            for j, rate in enumerate(sorted(set(rates)))
            for seed in scale.seeds
            for output in ("server", "client_mean", "ema", "ema_client_mean")
        ]  # fmt: skip
        texts = pd.read_csv(io.StringIO(to_csv(rows)), dtype=str, keep_default_na=False)
        append(tmp_path / "ci" / FILE, texts.assign(setting=setting.name), KEY)
    return found


@pytest.mark.parametrize("part", ["ci", ""])
def test_standings_and_settings(gym, part):
    report = report_on([gym.out / part])
    assert [section.title for section in report.sections] == ["Gym, scale ci: standings", "Gym, scale ci: settings"]
    table, bars = report.sections[0].blocks
    expected = standings(results(gym), gym.rules)
    assert [r[0] for r in table.rows] == [s.rule.label for s in expected]
    assert isinstance(bars, Intervals)
    assert set(bars.views) == {("worst",), *((s.name,) for s in gym.settings)}
    names, values, _ = bars.views["worst",]
    assert (names, values) == ([s.rule.label for s in expected], [s.worst[1].mean for s in expected])
    curves, *settings = report.sections[1].blocks
    assert isinstance(curves, Curves)
    assert [t.title for t in settings] == [s.name for s in gym.settings]
    assert "fedswe:k=10 has the smallest worst regret" in report.summary[1]


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
