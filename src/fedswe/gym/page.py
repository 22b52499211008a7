"""The leaderboard: a heat map, a page in Markdown, and the same numbers as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedswe.comparison.labels import short_names
from fedswe.core.footprint import in_d
from fedswe.gym.rules import FOOTPRINT_D, Rule
from fedswe.gym.settings import GRADIENT_BOUND, HOLD_OUT, Scale
from fedswe.gym.standings import REFERENCE, SettingResult, reached, standings
from fedswe.plotting import Draw, Size
from fedswe.results.table import SEEDS, Interval, in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AIDED = " (knows p)"


def markdown(scale: Scale, found: Sequence[SettingResult], rules: Sequence[Rule]) -> str:
    search = scale.search
    lines = [
        f"# Leaderboard, scale {scale.name}",
        "",
        f"![regret of every rule in every setting](heatmap-{scale.name}.svg)",
        "",
        *([caveat(scale), ""] if caveat(scale) else []),
        *_table(standings_table(standings(found, rules))),
        "",
        f"Regret: points of test accuracy behind the best rule of a setting that needs no true probabilities. ± of a "
        f"single setting is half a 95 % confidence interval over the seeds {', '.join(map(str, scale.seeds))}; ± of a "
        "mean, and how often a rule has the smallest mean regret, are by resampling these seeds with the best rule "
        f"chosen anew each time. {len(found)} settings, {scale.rounds} rounds, every stochastic gradient bounded by "
        f"{GRADIENT_BOUND:g}.",
        "",
        f"Tuning: every rule has the same search over the local rate (from {_list(search.rate)}), momentum "
        f"({_list(search.momentum)}), the server's rate ({_list(search.server_rate)} times its own), a warm-up of it "
        f"({_list(100 * value for value in search.warmup)} % of the rounds) and the schedule of the local rate "
        f"({', '.join(search.schedule)}), {search.trials} trials, with the seeds {_list(scale.tuning_seeds)}. Trial "
        f"and served model are those with the best accuracy on {HOLD_OUT:.0%} of the training samples, held out. "
        '"twice the rate" is what that accuracy changes by when the chosen local rate is doubled, in points: the mean '
        "and the worst over settings; a rule that fails with one of the seeds then has no accuracy left.",
        "",
        f"Measured again by `fedswe gym --scale {scale.name}`; add a rule with "
        f"`fedswe gym add ./mine.py:Mine --scale {scale.name}`.",
    ]
    for result in found:
        lines += ["", f"## {result.setting.name}", "", *_table(setting_table(result)), *_left_out(result)]
    return "\n".join(lines) + "\n"


def caveat(scale: Scale) -> str:
    few = len(scale.seeds) < SEEDS
    return f"{scale.rounds} rounds, {len(scale.seeds)} seeds: this checks that the gym works, it ranks nothing." * few


def _list(values: Any) -> str:
    return ", ".join(f"{value:g}" for value in values)


def standings_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The standings as texts."""
    return pd.DataFrame([
        {
            "rule": _name(row["rule"]),
            "worst regret": row["worst"].text(2) if row["worst"] else "",
            "in": row["in"],
            "mean regret": row["mean"].text(2) if row["worst"] else "",
            "smallest mean": f"{row['first']:.0%}" if row["worst"] else "",
            f"ahead of {REFERENCE}": _text(row.get("ahead")),
            "twice the rate": f"{-np.mean(row['cliffs']):.1f} ({-max(row['cliffs']):.1f})" if row["worst"] else "",
            "kept at a client": in_d(row["rule"].footprint.client, FOOTPRINT_D),
            "sent to the server": in_d(row["rule"].footprint.up, FOOTPRINT_D),
        }
        for row in rows.to_dict("records")
    ])  # fmt: skip


def _text(interval: object) -> str:
    return interval.text(2) if isinstance(interval, Interval) else ""


def setting_table(result: SettingResult) -> pd.DataFrame:
    """The rules of a setting as texts, the best first."""
    target, rows = result.target, []
    for e in result.chosen.sort_values("test", key=lambda tests: -tests.map(sum), kind="stable").to_dict("records"):
        rounds = reached(e["rows"], target)
        rows.append({
            "rule": _name(e["rule"]),
            "test accuracy": Interval.of(e["test"]).text(1),
            "regret": result.regret(e["label"]).text(1),
            "served model": in_words(e["output"]),
            "trial": e["trial"].name.replace("_", " "),
            "twice the rate": f"{-e['cliff']:.1f}",
            "worst tenth": _percent(e["worst_tenth"]),
            "rarely available": _percent(e["rare"]),
            "never available": _percent(e["never"]),
            "correlation": "" if math.isnan(e["correlation"]) else f"{e['correlation']:.2f}",
            f"rounds to {100 * target:.0f} %": f"{rounds:.0f}" if math.isfinite(rounds) else "not reached",
        })  # fmt: skip
    return pd.DataFrame(rows)


def _left_out(result: SettingResult) -> list[str]:
    lost = [label for label in result.measured if label not in result.chosen.index]
    labels = {"Diverged or learned nothing": lost, "Runs are missing": sorted(result.incomplete)}
    return [f"\n{what}: {', '.join(f'`{label}`' for label in of)}." for what, of in labels.items() if of]


def _table(cells: pd.DataFrame) -> list[str]:
    rules = [f"`{label}`{aided}" for label, aided, _ in cells["rule"].str.partition(_AIDED).itertuples(index=False)]
    shown = cells.assign(rule=rules)
    first, *others = (f"| {' | '.join(row)} |" for row in (shown.columns, *shown.itertuples(index=False)))
    return [first, "|---" * len(shown.columns) + "|", *others]


def _name(rule: Rule) -> str:
    return rule.label + _AIDED * rule.aided


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f}"


def heatmap(found: Sequence[SettingResult], rules: Sequence[Rule]) -> tuple[Draw, Size]:
    return partial(_draw, found=found, rules=rules), (2.5 + 0.3 * len(found), 1.2 + 0.2 * len(rules))


def _draw(figure: Figure, found: Sequence[SettingResult], rules: Sequence[Rule]) -> None:
    """Regret by rule and setting, in the order of the standings; grey is failed or not measured."""
    order = [rule.label for rule in standings(found, rules)["rule"]]
    regret = np.array([[r.regret(label).mean if label in r.chosen.index else np.nan for r in found] for label in order])
    axes = figure.subplots()
    axes.set_facecolor("0.75")
    axes.pcolormesh(regret, cmap="YlOrRd", vmin=0, vmax=10, edgecolors="white", linewidth=0.5)
    for (y, x), value in np.ndenumerate(regret):
        if not math.isnan(value):
            colour = "white" if value > 6 else "black"
            axes.text(x + 0.5, y + 0.5, f"{value:.1f}", ha="center", va="center", fontsize=5, color=colour)
    axes.set_yticks(np.arange(len(order)) + 0.5, short_names(order).values())
    axes.set_xticks(np.arange(len(found)) + 0.5, [r.setting.name for r in found], rotation=60, ha="right")
    axes.invert_yaxis()


def to_json(scale: Scale, found: Sequence[SettingResult], rules: Sequence[Rule]) -> dict[str, Any]:
    """The same numbers as plain values; NaN where there is none."""
    ranks = [
        {
            "rule": row["rule"].label, "worst_regret": round(row["worst"].mean, 4) if row["worst"] else math.nan,
            "worst_setting": row["in"] if row["worst"] else None,
            "mean_regret": round(row["mean"].mean, 4) if row["worst"] else math.nan,
            "failed": row["failed"], "missing": row["missing"],
        }
        for row in standings(found, rules).to_dict("records")
    ]  # fmt: skip
    settings = [
        {
            "setting": result.setting.name, "task": result.setting.task, "availability": result.setting.availability,
            "best": result.best["label"], "rules": [entry_json(result, label) for label in result.chosen.index],
        }
        for result in found
    ]  # fmt: skip
    return {"scale": scale.name, "seeds": scale.seeds, "standings": ranks, "settings": settings}


def entry_json(result: SettingResult, label: str) -> dict[str, Any]:
    """A rule in a setting, at its chosen trial and served model."""
    e, regret = result.chosen.loc[label], result.regret(label)
    return {
        "rule": label, "output": e["output"], "trial": asdict(e["trial"]), "cliff": round(float(e["cliff"]), 3),
        "test": [round(value, 3) for value in e["test"]],
        "regret": round(regret.mean, 4), "regret_half_width": round(regret.half, 4),
    }  # fmt: skip
