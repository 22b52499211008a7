"""The leaderboards are those of the tables, and what the guide says of the full gym is what its leaderboard says."""

import re
from pathlib import Path

import pytest

from fedswe.gym.gym import Gym
from fedswe.gym.page import markdown
from fedswe.gym.settings import SCALES
from fedswe.gym.standings import labels, results
from fedswe.gym.whole import whole_gym

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "choose-a-rule.md").read_text()
LEADERBOARD = (ROOT / "experiments" / "gym" / "LEADERBOARD-full.md").read_text()


@pytest.mark.parametrize("scale", ["small", "full"])
def test_a_leaderboard_is_that_of_the_tables_also_without_traces(scale, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path))
    gym = whole_gym(Gym(SCALES[scale], [], [], ROOT / "experiments" / "gym"))
    page = markdown(gym.scale, results(gym), gym.rules, labels(gym))
    assert page == (ROOT / "experiments" / "gym" / f"LEADERBOARD-{scale}.md").read_text()


def test_the_table_of_regrets():
    table = re.search(r"\| rule \| worst regret .*?\n\n", GUIDE, re.DOTALL)[0].strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    known = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in LEADERBOARD.splitlines() if line[:3] == "| `"
    ]
    shown = {row[0]: row[1:] for row in rows}
    whole = {}
    for row in known:
        whole.setdefault(row[0], row[1:4])  # the first table of the page: all settings
    assert len(shown) >= 7
    assert shown == {rule: whole[rule] for rule in shown}


def test_numbers_of_the_small_scale():
    page = (ROOT / "experiments" / "gym" / "LEADERBOARD-small.md").read_text()
    first = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:3] == "| `"]
    for row, rule in zip(first[:2], ("`interval_extrapolation`", "`scaffold`"), strict=True):
        assert row[0] == rule
        assert f"{rule}, {row[1]}" in GUIDE
    accuracy = {}
    for part in page.split("\n## digits-")[1:]:
        lines = [line.split("|") for line in part.split("\n## ")[0].splitlines() if line[:3] == "| `"]
        accuracy[part.split("\n")[0]] = {cells[1].strip(" `"): float(cells[2].split("±")[0]) for cells in lines}
    adam = next(rule for rule in accuracy["turns"] if "adam" in rule)
    ahead = [name for name, of in accuracy.items() if of[adam] > of["interval_extrapolation"]]
    assert (len(ahead), len(accuracy)) == (9, 12)
    assert (accuracy["turns"][adam], accuracy["turns"]["interval_extrapolation"]) == (71.9, 92.8)


def test_numbers_in_sentences():
    """Regrets that the text names, with the settings they are of."""
    for setting, rule, regret in (
        ("svhn-turns", "fedau", "12.1 ± 16.4"),
        ("cifar10-turns", "fedau", "7.1 ± 5.8"),
        ("svhn-turns", "interval_weights:power=1", "0.0 ± 0.0"),
        ("svhn-flash-charging", "fedawe:clip=0.5", "11.8"),
        ("svhn-flash-charging", "fedswe:k=100:clip=0.5", "35.1"),
    ):
        part = LEADERBOARD.split(f"## {setting}\n")[1].split("\n## ")[0]
        row = next(line for line in part.splitlines() if line.startswith(f"| `{rule}` "))
        assert regret in row.split("|")[3]
        assert regret in GUIDE or regret == "0.0 ± 0.0"
    best = [part.split("| `")[1].split("`")[0] for part in LEADERBOARD.split("\n## ")[2:]]
    assert len(best) == 8
    assert best.count("fedau") == 6
