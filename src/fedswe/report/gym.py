"""What a report says about a gym, and about the files that a reproduction wrote."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedswe.comparison.labels import short_names
from fedswe.errors import FedsweError, require
from fedswe.gym.gym import Gym, whole_gym
from fedswe.gym.measurements import FILE
from fedswe.gym.page import caveat, heatmap, setting_table, standings_table
from fedswe.gym.rules import RULES, rules_named
from fedswe.gym.settings import SCALES, settings_of
from fedswe.gym.standings import results, standings
from fedswe.plotting import svg
from fedswe.report.page import Report, Section, curves

_TABLE = {"algorithm", "column", "ours_mean", "ours_std", "ours_seeds"}
_CURVES = {"panel", "label", "x_name", "x", "y_name", "mean", "low", "high", "seeds"}
_NUMBERS = dict.fromkeys(("x", "mean", "low", "high", "seeds"), float)
_ROWS, _WIDE = 400, 12  # of a table; settings of a heat map that needs the width of a page
_NOTE = (
    "Regret: points of test accuracy behind the best rule of a setting that needs no true probabilities; ± is half a "
    "95 % interval over seeds, of means by resampling them."
)


def reports_of(path: Path, imports: bool) -> list[Report]:
    """On each gym, or else on each reproduction; none if it is neither."""
    gyms = [gym_report(gym, imports) for gym in gyms_in(path)]
    return gyms or list(map(reproduction_report, reproductions_in(path)))


def gyms_in(path: Path) -> list[Path]:
    """The directory of a scale, or those in the directory of a gym, the largest first."""
    folders = (path, *(path / name for name in reversed(SCALES)))
    found = [folder for folder in folders if folder.resolve().name in SCALES]
    return [folder for folder in found if (folder / FILE).is_file()]


def gym_report(path: Path, imports: bool) -> Report:
    scale = SCALES[path.resolve().name]  # type: ignore[index]
    gym = Gym(scale, settings_of(scale), rules_named(RULES[scale.name]), path.resolve().parent)
    gym = whole_gym(gym) if imports else gym  # with the rules of the user's own that are in the tables
    found = results(gym)
    require(found, f"{path} has no complete measurements: run fedswe gym --scale {scale.name}")
    rows = standings(found, gym.rules)
    names = short_names(rule.label for rule in rows["rule"])
    table = standings_table(rows).replace({"rule": names})
    settings = {result.setting.name: setting_table(result).replace({"rule": names}) for result in found}
    drawing = svg(*heatmap(found, gym.rules))
    images = {"Regret of every rule in every setting, in points; grey: failed or not measured": drawing}
    ranked = [row for row in rows.to_dict("records") if row["worst"]]
    title, summary = f"{len(found)} settings of the scale {scale.name}: every rule failed in one", list[str]()
    for row in ranked[:1]:
        best = f"{names[row['rule'].label]} is at most {row['worst'].mean:.1f} points"
        title = f"{best} behind the best rule in any of {len(found)} settings"
        worst = (f"{names[of['rule'].label]} {of['worst'].text(1)} (in {of['in']})" for of in ranked[:3])
        summary = [f"The smallest worst regrets, in points: {'; '.join(worst)}."]
    if failed := [names[rule.label] for rule, lost in zip(rows["rule"], rows["failed"], strict=True) if lost]:
        summary.append(f"{', '.join(failed)} failed with all local rates in at least one setting.")
    if warning := caveat(scale):
        title, summary = f"Gym, scale {scale.name}: it works", [warning]
    measured = sum(not place.startswith("not measured") for place in rows["in"])
    summary.append(f"Scale {scale.name}: {measured} rules, each with its own best trial and served model.")
    wide, long = len(found) > _WIDE, "\n".join(f"{names[label]}: {label}" for label in names if names[label] != label)
    sections = [
        *[Section("Regret of every rule in every setting", images=images)] * wide,
        Section("Standings", tables={"The smallest worst regret first": table}, note=_NOTE, folded=True),
        Section("Settings", tables=settings, folded=True),
        *[Section("Short names", listings={"What they stand for": long}, folded=True)] * bool(long),
    ]
    return Report(title, summary, sections, images={} if wide else images)


# a reproduction ----------------------------------------------------------------------------------------------
def reproductions_in(path: Path) -> list[Path]:
    """The folders of scale and profile, such as small-released, that hold verdicts."""
    return [folder for folder in (path, *sorted(path.iterdir())) if (folder / "claims.csv").is_file()]


def reproduction_report(path: Path) -> Report:
    """Its tables as they are, and its curves drawn."""
    try:
        found = {file.stem: pd.read_csv(file, dtype=str, keep_default_na=False) for file in sorted(path.glob("*.csv"))}
        figures = {
            name: curves({table["x_name"].iloc[0]: table.replace("", "nan").astype(_NUMBERS)})
            for name, table in found.items()
            if set(table) >= _CURVES and len(table)
        }
        count = ", ".join(f"{status}: {n}" for status, n in found["claims"]["status"].value_counts().items())
    except (OSError, KeyError, ValueError):
        raise FedsweError(f"{path} is damaged: give the command of the reproduction again") from None
    tables = {name: table.head(_ROWS) for name, table in found.items() if name == "claims" or set(table) >= _TABLE}
    title = f"Reproduction {path.resolve().name}: {(found['claims']['status'] == 'holds').sum()} claims hold"
    summary = f"Verdicts on {len(found['claims'])} claims: {count}."
    return Report(title, [summary], [Section("Claims and tables", tables=tables, figures=figures)])
