"""What the guide and the README say of the gym is what its leaderboard says."""

import re
from pathlib import Path

from fedswe.gym.advice import stored

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "which-rule.md").read_text()
LEADERBOARD = (ROOT / "experiments" / "gym" / "LEADERBOARD-small.md").read_text()
SHOWN = ("rule", "worst regret", "in", "mean regret", "ahead of fedavg", "twice the rate")


def rows(page):
    """The first table of rules of a page, a dictionary for each row."""
    lines = re.search(r"(\| rule \|.*?)\n\n", page, re.DOTALL)[1].splitlines()
    header, _, *others = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in others]


def test_the_table_of_regrets():
    measured = [{name: row[name] for name in SHOWN} for row in rows(LEADERBOARD)]
    assert rows(GUIDE) == measured
    assert f"`{stored()['recommended']}`" in [row["rule"] for row in measured]


def test_numbers_in_sentences():
    settings, rules = len(re.findall(r"^## ", LEADERBOARD, re.MULTILINE)), len(rows(LEADERBOARD))
    assert f"small scale: {settings} settings, {rules} rules" in GUIDE
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"Of {rules} rules that were measured in {settings} settings" in readme
