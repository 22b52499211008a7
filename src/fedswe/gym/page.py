"""The leaderboard: a page in Markdown and the same numbers as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedswe.core.footprint import in_d
from fedswe.gym.rules import FOOTPRINT_D, Rule
from fedswe.gym.settings import GRADIENT_BOUND, HOLD_OUT, Scale
from fedswe.gym.standings import SettingResult, ranked, reached, standings
from fedswe.results.table import Interval, in_words

_AIDED = " (knows p)"


def markdown(scale: Scale, found: Sequence[SettingResult], rules: Sequence[Rule], outputs: Sequence[str]) -> str:
    whole = ranked(found)
    lines = [
        f"# Leaderboard, scale {scale.name}",
        "",
        f"Measured again by `fedswe gym --scale {scale.name}`; add a rule with "
        f"`fedswe gym add ./mine.py:Mine --scale {scale.name}`.",
        "",
        f"{scale.rounds} rounds, seeds {', '.join(map(str, scale.seeds))}, every stochastic gradient bounded by "
        f"{GRADIENT_BOUND:g}. Every rule has at least {scale.least_trials} local rates, more until its best one lies "
        f"inside. Rate and served model are chosen on {HOLD_OUT:.0%} of the training samples, held out. Numbers are "
        "test accuracies in percent, averaged over the last rounds; ± is half a 95 % confidence interval over seeds. "
        "Regret is the distance to the best rule of the setting that needs no true probabilities. Repeated traces: "
        "FedScale's 45 hours are 270 rounds of ten minutes.",
        "",
        "## All settings" if len(whole) == len(found) else "## The settings that are completely measured",
        "",
        f"{len(whole)} of {len(found)}: {', '.join(result.setting.name for result in whole)}.",
        "",
        *_table(standings_table(standings(whole, rules))),
        "",
        "Worst regret with one served model for all of them:",
        "",
        *_table(_by_output(whole, rules, outputs)),
    ]
    for result in found:
        lines += ["", f"## {result.setting.name}", "", *_table(setting_table(result)), *_left_out(result)]
    return "\n".join(lines) + "\n"


def standings_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The standings as texts."""
    return pd.DataFrame([
        {
            "rule": _name(row["rule"]),
            "worst regret": row["worst"].text(2) if row["worst"] else "",
            "in": row["in"],
            "mean regret": f"{row['mean']:.2f}" if row["worst"] else "",
            "kept at a client": in_d(row["rule"].footprint.client, FOOTPRINT_D),
            "sent to the server": in_d(row["rule"].footprint.up, FOOTPRINT_D),
        }
        for row in rows.to_dict("records")
    ])  # fmt: skip


def _by_output(found: Sequence[SettingResult], rules: Sequence[Rule], outputs: Sequence[str]) -> pd.DataFrame:
    table = pd.DataFrame({"rule": [_name(rule) for rule in standings(found, rules)["rule"]]})
    for output in outputs:
        rows = standings(found, rules, output)
        worst = {_name(rule): f"{w.mean:.2f}" if w else "" for rule, w in zip(rows["rule"], rows["worst"], strict=True)}
        table[in_words(output)] = table["rule"].map(worst)
    return table


def setting_table(result: SettingResult) -> pd.DataFrame:
    """The rules of a setting as texts, the best first."""
    target, rows = result.target, []
    timed = any(of[0].seconds for of in result.chosen["rows"])
    for e in result.chosen.sort_values("test", key=lambda tests: -tests.map(sum), kind="stable").to_dict("records"):
        size = e["rule"].footprint
        row = {
            "rule": _name(e["rule"]),
            "test accuracy": Interval.of(e["test"]).text(1),
            "regret": result.regret(e["test"]).text(1),
            "served model": in_words(e["output"]),
            "rate": f"{e['rate']:g}{' (edge)' * e['edge']}",
            "trials": str(e["trials"]),
            "worst tenth": _percent(e["worst_tenth"]),
            "rarely available": _percent(e["rare"]),
            "never available": _percent(e["never"]),
            "correlation": "" if math.isnan(e["correlation"]) else f"{e['correlation']:.2f}",
            f"rounds to {100 * target:.0f} %": _time(reached(e["rows"], target, "rounds")),
            "reports": f"{e['reports']:.0f}",
            "vectors sent": f"{e['reports'] * ((size.down + size.up + size.reply) // FOOTPRINT_D):.0f}",
        }
        if timed:
            row["hours to it"] = _time(reached(e["rows"], target, "seconds") / 3600)
            row["time wasted"] = _percent(e["wasted"])
        rows.append(row)
    return pd.DataFrame(rows)


def _left_out(result: SettingResult) -> list[str]:
    lost = [label for label in result.measured if label not in result.chosen.index]
    labels = {"Diverged or learned nothing with every rate": lost, "Trials are missing": sorted(result.incomplete)}
    return [f"\n{what}: {', '.join(f'`{label}`' for label in of)}." for what, of in labels.items() if of]


def _table(cells: pd.DataFrame) -> list[str]:
    rules = [f"`{label}`{aided}" for label, aided, _ in cells["rule"].str.partition(_AIDED).itertuples(index=False)]
    shown = cells.assign(rule=rules)
    first, *others = (f"| {' | '.join(row)} |" for row in (shown.columns, *shown.itertuples(index=False)))
    return [first, "|---" * len(shown.columns) + "|", *others]


def _time(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "not reached"


def _name(rule: Rule) -> str:
    return rule.label + _AIDED * rule.aided


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f}"


def to_json(scale: Scale, found: Sequence[SettingResult], rules: Sequence[Rule]) -> dict[str, Any]:
    """The same numbers as plain values; NaN where there is none."""
    ranks = [
        {
            "rule": row["rule"].label, "worst_regret": round(row["worst"].mean, 4) if row["worst"] else math.nan,
            "worst_setting": row["in"] if row["worst"] else None, "mean_regret": round(row["mean"], 4),
            "failed": row["failed"], "missing": row["missing"],
        }
        for row in standings(ranked(found), rules).to_dict("records")
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
    """A rule in a setting, at its own best served model."""
    e, others = result.chosen.loc[label], result.entries[result.entries["label"] == label]
    regret = result.regret(e["test"])
    return {
        "rule": label, **e[["output", "rate", "edge", "trials"]],
        "test": [round(value, 3) for value in e["test"]], "held_out": round(float(e["held_out"]), 3),
        "regret": round(regret.mean, 4), "regret_half_width": round(regret.half, 4),
        "by_output": {
            output: [round(value, 3) for value in test]
            for output, test in zip(others["output"], others["test"], strict=True)
        },
    }  # fmt: skip
