"""What the guide and the README say of the gym is what its leaderboard says."""

import re
from pathlib import Path

from fedswe.gym.advice import stored

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "which-rule.md").read_text()
LEADERBOARDS = [(ROOT / "experiments" / "gym" / f"LEADERBOARD-{scale}.md").read_text() for scale in ("full", "small")]
SHOWN = ("rule", "worst regret", "in", "mean regret", "ahead of fedavg", "twice the rate")


def tables(page):
    """Those of rules, a dictionary for each row; without the rules that are not measured."""
    for table in re.findall(r"(\| rule \|.*?)\n\n", page, re.DOTALL):
        header, _, *others = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        rows = [dict(zip(header, row, strict=True)) for row in others]
        yield [row for row in rows if not row.get("in", "").startswith("not measured")]


def test_the_tables_of_regrets():
    measured = [next(tables(page)) for page in LEADERBOARDS]
    assert list(tables(GUIDE)) == [[{name: row[name] for name in SHOWN} for row in rows] for rows in measured]
    assert all(f"`{stored()['recommended']}`" in [row["rule"] for row in rows] for rows in measured)


def test_numbers_in_sentences():
    for page, said in zip(LEADERBOARDS, ("{} settings, {} rules so far", "{} settings, {} rules"), strict=True):
        settings, rules = len(re.findall(r"^## ", page, re.MULTILINE)), len(next(tables(page)))
        assert said.format(settings, rules) in GUIDE
    best, *_ = next(tables(LEADERBOARDS[0]))
    assert f"in {best['smallest mean']} of the resamples" in GUIDE


def test_kinds_of_settings_in_sentences():
    """Means of the regrets of the full scale over kinds of settings."""
    regrets = {name: [] for name in ("`keel:power=0`", "`fedexp`")}
    kinds = {"flash|fedscale|spot": [], "sine|thousand": [], "turns|regime|visits|few": []}
    for section in re.split(r"^## ", LEADERBOARDS[0], flags=re.MULTILINE)[1:]:
        (kind,) = (kind for kind in kinds if re.search(kind, section.splitlines()[0]))
        rows = {row["rule"]: float(row["regret"].split()[0]) for row in next(tables(section + "\n\n"))}
        kinds[kind].append([rows[rule] for rule in regrets])
    text = " ".join(GUIDE.split())
    (said,) = re.findall(r"five settings of recorded devices .*? come once or two report, [\d.]+ and [\d.]+\d", text)
    means = [f"{sum(of) / len(of):.2f}" for rows in kinds.values() for of in zip(*rows, strict=True)]
    assert re.findall(r"\d\.\d\d", said) == means
