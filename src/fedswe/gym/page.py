"""The leaderboard: a page in Markdown and the same numbers as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedswe.core.footprint import in_d
from fedswe.gym.rules import FOOTPRINT_D, Rule
from fedswe.gym.settings import GRADIENT_BOUND, HOLD_OUT, Scale
from fedswe.gym.standings import Entry, SettingResult, Standing, ranked, standings
from fedswe.results.table import Interval


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
        *_standings(standings(whole, rules)),
        "",
        "Worst regret with one served model for all of them:",
        "",
        *_by_output(whole, rules, outputs),
    ]
    for result in found:
        lines += ["", f"## {result.setting.name}", "", *_setting(result)]
    return "\n".join(lines) + "\n"


def _standings(rows: Sequence[Standing]) -> list[str]:
    cells = []
    for row in rows:
        size, worst = row.rule.footprint, row.worst
        shown = (worst[1].text(2), worst[0], f"{row.mean:.2f}") if worst else ("", row.problem, "")
        cells.append([_name(row.rule), *shown, *(in_d(count, FOOTPRINT_D) for count in (size.client, size.up))])
    return _table(["rule", "worst regret", "in", "mean regret", "kept at a client", "sent to the server"], cells)


def _by_output(found: Sequence[SettingResult], rules: Sequence[Rule], outputs: Sequence[str]) -> list[str]:
    by_output = [{s.rule.label: s.worst for s in standings(found, rules, output)} for output in outputs]
    cells = []
    for rule in (row.rule for row in standings(found, rules)):
        worst = [of[rule.label] for of in by_output]
        cells.append([_name(rule), *("" if w is None else f"{w[1].mean:.2f}" for w in worst)])
    return _table(["rule", *(output.replace("_", " ") for output in outputs)], cells)


def _setting(result: SettingResult) -> list[str]:
    target = result.target
    order = sorted(result.chosen.values(), key=lambda e: -sum(e.test))
    timed = any(e.rows[0].seconds for e in order)
    heads = [
        "rule", "test accuracy", "regret", "served model", "rate", "trials", "worst tenth", "rarely available",
        "never available", "correlation", f"rounds to {100 * target:.0f} %", "reports", "vectors sent",
        *(["hours to it", "time wasted"] if timed else []),
    ]  # fmt: skip
    cells = []
    for e in order:
        size, reports, correlation = e.rule.footprint, e.mean_of("reports"), e.mean_of("correlation")
        cells.append([
            _name(e.rule),
            Interval.of(e.test).text(1),
            result.regret(e).text(1),
            e.output.replace("_", " "),
            f"{e.rate:g}{' (edge)' if e.edge else ''}",
            str(e.trials),
            *(_percent(e.mean_of(name)) for name in ("worst_tenth", "rare", "never")),
            "" if math.isnan(correlation) else f"{correlation:.2f}",
            _time(e.reached(target, "rounds")),
            f"{reports:.0f}",
            f"{reports * ((size.down + size.up + size.reply) // FOOTPRINT_D):.0f}",
            *([_time(e.reached(target, "seconds") / 3600), _percent(e.mean_of("wasted"))] if timed else []),
        ])  # fmt: skip
    lines = _table(heads, cells)
    lost = [label for label in result.by_output if label not in result.chosen]
    missing = sorted(result.incomplete)
    for what, labels in (("Diverged or learned nothing with every rate", lost), ("Trials are missing", missing)):
        if labels:
            lines += ["", f"{what}: {', '.join(f'`{label}`' for label in labels)}."]
    return lines


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return [first, "|---" * len(heads) + "|", *others]


def _time(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "not reached"


def _name(rule: Rule) -> str:
    return f"`{rule.label}`" + (" (knows p)" if rule.aided else "")


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f}"


def to_json(scale: Scale, found: Sequence[SettingResult], rules: Sequence[Rule]) -> dict[str, Any]:
    """The same numbers as plain values; NaN where there is none."""
    ranks = []
    for row in standings(ranked(found), rules):
        setting, regret = row.worst or (None, Interval(math.nan, math.nan))
        ranks.append({
            "rule": row.rule.label, "worst_regret": round(regret.mean, 4), "worst_setting": setting,
            "mean_regret": round(row.mean, 4), "failed": row.failed, "missing": row.missing,
        })  # fmt: skip
    settings = [
        {
            "setting": result.setting.name, "task": result.setting.task, "availability": result.setting.availability,
            "best": result.best.rule.label, "rules": [entry_json(result, e) for e in result.chosen.values()],
        }
        for result in found
    ]  # fmt: skip
    return {"scale": scale.name, "seeds": scale.seeds, "standings": ranks, "settings": settings}


def entry_json(result: SettingResult, e: Entry) -> dict[str, Any]:
    """A rule in a setting, at its own best served model."""
    regret, others = result.regret(e), result.by_output[e.rule.label].items()
    return {
        "rule": e.rule.label, "output": e.output, "rate": e.rate, "edge": e.edge, "trials": e.trials,
        "test": [round(value, 3) for value in e.test], "held_out": round(e.held_out, 3),
        "regret": round(regret.mean, 4), "regret_half_width": round(regret.half, 4),
        "by_output": {output: [round(v, 3) for v in other.test] for output, other in others},
    }  # fmt: skip
