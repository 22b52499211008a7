"""What the guide says of the full gym is what its leaderboard says."""

import re
from pathlib import Path

from fedswe.gym.advice import stored
from fedswe.gym.gym import Gym, whole_gym
from fedswe.gym.settings import SCALES
from fedswe.gym.standings import results

ROOT = Path(__file__).parents[2]
RECOMMENDED = stored()["recommended"]
GUIDE = (ROOT / "docs" / "which-rule.md").read_text()
LEADERBOARD = (ROOT / "experiments" / "gym" / "LEADERBOARD-full.md").read_text()


def test_the_table_of_regrets():
    table = re.search(r"\| rule \| worst regret .*?\n\n", GUIDE, re.DOTALL)[0].replace("| FedExP, `", "| `")
    whole = {}
    for row in rows(LEADERBOARD):
        whole.setdefault(row[0], row[1:4])  # the first table of the page: all settings
    shown = {row[0]: row[1:] for row in rows(table) if "±" in row[1]}
    assert len(shown) == 11
    assert shown == {rule: whole[rule] for rule in shown}


def test_numbers_of_the_small_scale(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path))
    page = rows((ROOT / "experiments" / "gym" / "LEADERBOARD-small.md").read_text())
    assert page[0][0] == f"`{RECOMMENDED}`"
    assert page[1][0] == "`interval_extrapolation:least=0`"
    assert page[0][1] in GUIDE
    assert page[1][1] in GUIDE
    found = results(whole_gym(Gym(SCALES["small"], [], [], ROOT / "experiments" / "gym")))
    assert f"({len(found)} settings, {max(len(result.chosen) for result in found)} rules" in GUIDE
    regrets = {result.setting.name: result.regret(result.chosen.loc[RECOMMENDED, "test"]).mean for result in found}
    behind = sorted(regret for name, regret in regrets.items() if "svhn" in name and regret > 0.5)
    assert f"by {behind[0]:.1f} to\n  {behind[-1]:.1f} points" in GUIDE


def test_numbers_in_sentences():
    """Regrets of FedSWE on recorded devices, and how often the recommended rule is first."""
    parts = {part.split("\n")[0]: rows(part) for part in LEADERBOARD.split("\n## ")[2:]}
    assert len(parts) == 8
    assert sum(found[0][0] == f"`{RECOMMENDED}`" for found in parts.values()) == 7
    behind = [
        float(row[2].split("±")[0])
        for name, found in parts.items()
        for row in found
        if ("flash" in name or "fedscale" in name) and row[0].startswith(("`fedswe:", "`fedawe:"))
    ]
    assert len(behind) == 8
    assert f"recorded devices** ({min(behind)} to {max(behind)} points)" in GUIDE


def rows(page):
    """The cells of the lines that begin with a rule."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:3] == "| `"]
