"""What a report says about a gym, and about the files that a reproduction wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedswe.charts import Panel, Series, numbers
from fedswe.errors import FedsweError, require
from fedswe.gym.gym import Gym, whole_gym
from fedswe.gym.measurements import FILE, Measured
from fedswe.gym.page import setting_table, standings_table
from fedswe.gym.rules import RULES, rules_named
from fedswe.gym.settings import SCALES, settings_of
from fedswe.gym.standings import results, standings
from fedswe.report.page import Section, curves

_TABLE = {"algorithm", "column", "ours_mean", "ours_std", "ours_seeds"}
_CURVES = {"panel", "label", "x_name", "x", "y_name", "mean", "low", "high"}
_NUMBERS = dict.fromkeys(("x", "mean", "low", "high"), float)
_ROWS = 400
_NOTE = (
    "Regret: points of test accuracy behind the best rule of a setting that needs no true probabilities; ± is half a "
    "95 % interval over seeds, of means by resampling them."
)


def sections_of(path: Path, imports: bool) -> list[tuple[list[str], list[Section]]]:
    """Sentences and sections of each gym, or else of each reproduction; none if it is neither."""
    gyms = [gym_sections(gym, imports) for gym in gyms_in(path)]
    return gyms or list(map(reproduction_sections, reproductions_in(path)))


def gyms_in(path: Path) -> list[Path]:
    """The directory of a scale, or those in the directory of a gym."""
    found = [folder for folder in (path, *(path / name for name in SCALES)) if folder.resolve().name in SCALES]
    return [folder for folder in found if (folder / FILE).is_file()]


def gym_sections(path: Path, imports: bool) -> tuple[list[str], list[Section]]:
    scale = SCALES[path.resolve().name]  # type: ignore[index]
    gym = Gym(scale, settings_of(scale), rules_named(RULES[scale.name]), path.resolve().parent)
    gym = whole_gym(gym) if imports else gym  # with the rules of the user's own that are in the tables
    found = results(gym)
    require(found, f"{path} has no complete measurements: run fedswe gym --scale {scale.name}")
    rows = standings(found, gym.rules)
    summary = (
        f"Gym, scale {scale.name}: {len(rows)} rules in {len(found)} settings, each with its own best trial and served "
        "model."
    )
    table = standings_table(rows)
    settings = {result.setting.name: setting_table(result) for result in found}
    order = [rule.label for rule in rows["rule"]]
    panels = []
    for result in found:
        series = [_series(rule, of) for rule, of in result.chosen["rows"].items() if of[0].rounds]
        panels.append(Panel(result.setting.name, series, "test accuracy, %"))
    return [summary], [
        Section(f"Gym, scale {scale.name}: standings", tables={"The smallest worst regret first": table}, note=_NOTE),
        Section(
            f"Gym, scale {scale.name}: settings",
            tables=settings,
            figures={"Test accuracy": curves({"round": numbers(panels)}, order)},
        ),
    ]


def _series(rule: str, rows: Sequence[Measured]) -> Series:
    same = [row for row in rows if row.rounds == rows[0].rounds]
    return Series(rule, list(rows[0].rounds), [[100 * value for value in row.curve] for row in same])


# a reproduction ----------------------------------------------------------------------------------------------
def reproductions_in(path: Path) -> list[Path]:
    """The folders of scale and profile, such as small-released, that hold verdicts."""
    return [folder for folder in (path, *sorted(path.iterdir())) if (folder / "claims.csv").is_file()]


def reproduction_sections(path: Path) -> tuple[list[str], list[Section]]:
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
    name = path.resolve().name
    summary = f"Reproduction {name}, verdicts on {len(found['claims'])} claims: {count}."
    return [summary], [Section(f"Reproduction {name}", tables=tables, figures=figures)]
