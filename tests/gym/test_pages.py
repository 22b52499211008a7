"""What the guide says of the full gym is what its leaderboard says."""

import re
from pathlib import Path

import numpy as np

from fedswe.gym.advice import RECOMMENDED
from fedswe.gym.gym import Gym, whole_gym
from fedswe.gym.settings import SCALES
from fedswe.gym.standings import results

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "choose-a-rule.md").read_text()
RULE = (ROOT / "docs" / "interval-extrapolation.md").read_text()
LEADERBOARD = (ROOT / "experiments" / "gym" / "LEADERBOARD-full.md").read_text()


def test_the_table_of_regrets():
    table = re.search(r"\| rule \| worst regret .*?\n\n", GUIDE, re.DOTALL)[0].strip().splitlines()[2:]
    shown = {row[0]: row[1:] for row in rows("\n".join(table))}
    whole = {}
    for row in rows(LEADERBOARD):
        whole.setdefault(row[0], row[1:4])  # the first table of the page: all settings
    assert len(shown) == 15
    assert shown == {rule: whole[rule] for rule in shown}


def test_numbers_of_the_small_scale(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path))
    page = (ROOT / "experiments" / "gym" / "LEADERBOARD-small.md").read_text()
    first = rows(page)
    for row, rule in zip(first[:2], (f"`{RECOMMENDED}`", "`interval_extrapolation:least=0`"), strict=True):
        assert row[0] == rule
        assert f"{rule}, {row[1]}" in GUIDE
    found = results(whole_gym(Gym(SCALES["small"], [], [], ROOT / "experiments" / "gym")))
    accuracy = {
        result.setting.availability: {rule: float(np.mean(e.test)) for rule, e in result.chosen.items()}
        for result in found
        if result.setting.task == "digits"
    }
    adam = next(rule for rule in accuracy["turns"] if "adam" in rule)
    ahead = [name for name, of in accuracy.items() if of[adam] > of[RECOMMENDED]]
    assert (len(ahead), len(accuracy)) == (6, 13)  # six of thirteen
    assert f"({accuracy['turns'][adam]:.1f} % against {accuracy['turns'][RECOMMENDED]:.1f} %)" in GUIDE
    assert f"({len(found)} settings, {len(accuracy['turns'])} rules" in GUIDE
    regrets = {result.setting.name: result.regret(result.chosen[RECOMMENDED]).mean for result in found}
    assert sum(regret <= 0.5 for regret in regrets.values()) == 24
    behind = sorted(regret for name, regret in regrets.items() if "svhn" in name and regret > 0.5)
    assert f"by {behind[0]:.1f} to {behind[-1]:.1f}" in RULE
    assert "within 0.5 of the best in 24\nsettings" in RULE
    later = [regrets[f"svhn-{name}"] for name in ("always", "cyclic", "flash-battery", "flash-seconds")]
    assert "{:.1f}, {:.1f}, {:.1f} and\n{:.1f} behind".format(*later) in RULE


def test_numbers_in_sentences():
    """Regrets that the text names, with the settings they are of."""
    for setting, rule, regret in (
        ("svhn-turns", RECOMMENDED, "1.0 ± 1.3"),
        ("svhn-turns", "fedau", "14.2 ± 18.6"),
        ("cifar10-turns", "fedau", "7.3 ± 11.3"),
        ("svhn-flash-charging", "fedawe:clip=0.5", "14.0"),
        ("svhn-flash-charging", "fedswe:k=100:clip=0.5", "37.3"),
    ):
        part = LEADERBOARD.split(f"## {setting}\n")[1].split("\n## ")[0]
        row = next(line for line in part.splitlines() if line.startswith(f"| `{rule}` "))
        assert regret in row.split("|")[3]
        assert regret in GUIDE
    best = [part.split("| `")[1].split("`")[0] for part in LEADERBOARD.split("\n## ")[2:]]
    assert len(best) == 8
    assert best.count(RECOMMENDED) == 7
    for rule, least, most in (("momentum:0.9", 1.1, 2.8), ("adam", 0.4, 2.0)):
        parts = [part for part in LEADERBOARD.split("\n## ")[2:] if "turns" not in part.split("\n")[0]]
        lines = [line for part in parts for line in part.splitlines() if line.startswith("| `fedavg:") and rule in line]
        regrets = [float(line.split("|")[3].split("±")[0]) for line in lines]
        assert (len(regrets), min(regrets), max(regrets)) == (6, least, most)
    assert "momentum 0.9 is 1.1 to 2.8 points behind and Adam 0.4 to 2.0" in RULE


def test_the_page_of_the_recommended_rule():
    """Worst and mean regrets that it names are those of the leaderboards."""
    page = RULE
    full, small = ({}, {})
    for scale, known in (("full", full), ("small", small)):
        for row in rows((ROOT / "experiments" / "gym" / f"LEADERBOARD-{scale}.md").read_text()):
            known.setdefault(row[0].strip("`"), row)
    for known, rule, with_interval in (
        (full, RECOMMENDED, True),
        (full, "interval_extrapolation", True),
        (full, "interval_extrapolation:least=0", True),
        (full, "interval_extrapolation:power=0:least=0", True),
        (full, "interval_weights:power=1:least=1", True),
        (full, "scaffold", True),
        (small, RECOMMENDED, True),
        (small, "interval_extrapolation:power=0:least=0", True),
        (small, "scaffold", True),
        (small, "focus", True),
        (small, "interval_weights:power=1:least=1", False),
        (small, "interval_extrapolation", True),
        (small, "interval_extrapolation:least=0", True),
        (small, "fedvarp", True),
        (full, "decayed_memory", False),
        (full, "interval_weights:power=1", False),
        (small, "interval_weights", False),
        (small, "interval_weights:power=1", False),
        (small, "bounded_fedswe:k=30:clip=0.5", False),
    ):
        _, worst, _, mean, *_ = known[rule]
        assert (worst if with_interval else worst.split(" ")[0]) in page, rule
        if rule.startswith(("interval_extrapolation", "bounded", "fedswe")):
            assert mean in page, rule
    assert len(full) == 15
    assert "fifteen" in page
    assert f"{len(small)} rules" in page


def rows(page):
    """The cells of the lines that begin with a rule."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:3] == "| `"]
