"""What a report says about a gym: the standings of rules over all settings, and each setting."""

from __future__ import annotations

import math
from pathlib import Path

from fedswe.core.footprint import in_d
from fedswe.errors import require
from fedswe.gym.gym import Gym, whole_gym
from fedswe.gym.measurements import FILE
from fedswe.gym.rules import FOOTPRINT_D, RULES, rules_named
from fedswe.gym.settings import SCALES
from fedswe.gym.standings import Entry, SettingResult, Standing, labels, ranked, results, standings
from fedswe.plotting import Panel, Series
from fedswe.report.blocks import Block, Section, Table, listed, name_in_text
from fedswe.report.charts import Curves, Intervals, Key, Switch, View
from fedswe.results.table import Interval


def scales_in(path: Path) -> list[Path]:
    """The directory of a scale, or those in the directory of a gym."""
    found = [folder for folder in (path, *(path / name for name in SCALES)) if folder.resolve().name in SCALES]
    return [folder for folder in found if (folder / FILE).is_file()]


def gym_sections(path: Path) -> tuple[list[str], list[Section]]:
    scale = SCALES[path.resolve().name]  # type: ignore[index]
    gym = whole_gym(Gym(scale, [], rules_named(RULES[scale.name]), path.resolve().parent))
    found = results(gym)
    require(found, f"{path} has no complete measurements: run fedswe gym --scale {scale.name}")
    whole = ranked(found)
    rows = standings(whole, gym.rules)
    sections = [
        Section(f"Gym, scale {scale.name}: standings", [_standings(rows), _regrets(found, rows)]),
        Section(f"Gym, scale {scale.name}: settings", _settings(found, [row.rule.label for row in rows])),
    ]
    return _summary(gym, len(whole), found, rows), sections


def _summary(gym: Gym, whole: int, found: list[SettingResult], rows: list[Standing]) -> list[str]:
    usable = [row for row in rows if row.worst and not row.rule.aided]
    sentences = [
        f"Gym, scale {gym.scale.name}: {len(rows)} rules in {len(found)} settings, {gym.scale.rounds} rounds, seeds "
        f"{', '.join(map(str, gym.scale.seeds))}, each rule with its own best rate and served model "
        f"({listed([label.replace('_', ' ') for label in labels(gym)])})."
    ]
    if whole < len(found):
        sentences.append(f"Ranked over the {whole} settings in which all rules have had all their trials.")
    if usable:
        setting, regret = usable[0].worst or ("", Interval(math.nan, math.nan))
        sentences.append(
            f"{name_in_text(usable[0].rule.label)} has the smallest worst regret: at most {regret.mean:.1f} points of "
            f"test accuracy behind the best rule of a setting ({setting}), {usable[0].mean:.1f} on average."
        )
    else:
        sentences.append("No rule has had all its trials in all settings: there is no worst regret.")
    bests = [result.best.rule.label for result in found]
    count = {label: bests.count(label) for label in dict.fromkeys(bests)}
    sentences.append(
        "Best in a setting: "
        + ", ".join(f"{name_in_text(n)} ({c})" for n, c in sorted(count.items(), key=lambda i: -i[1]))
        + "."
    )
    gone = [row.rule.label for row in rows if row.failed]
    if gone:
        sentences.append(f"With every rate, in some setting: {listed(gone)} diverged or learned nothing.")
    return sentences


def _standings(rows: list[Standing]) -> Table:
    cells = []
    for row in rows:
        worst, size = row.worst, row.rule.footprint
        kept, sent = (in_d(count, FOOTPRINT_D) for count in (size.client, size.up))
        shown = (worst[0], _interval(worst[1]), f"{row.mean:.2f}") if worst else (row.problem, "", "")
        cells.append([row.rule.label + (" (knows p)" if row.rule.aided else ""), *shown, kept, sent])
    columns = ["rule", "worst in", "worst regret", "mean regret", "kept at a client", "sent to the server"]
    note = (
        "Regret: points of test accuracy behind the best rule of a setting that needs no true probabilities; ± is half "
        "a 95 % interval over seeds."
    )
    return Table("Rules, the smallest worst regret first", columns, cells, note, words=2)


def _regrets(found: list[SettingResult], rows: list[Standing]) -> Intervals:
    views: dict[Key, tuple[list[str], list[float], list[float]]] = {}
    worst = [(row.rule.label, row.worst[1]) for row in rows if row.worst]
    options = {}
    if worst:
        options["worst"] = "worst of all settings"
        views[("worst",)] = _bars(worst)
    for result in found:
        name = result.setting.name
        options[name] = name
        regrets = [(e.rule.label, result.regret(e)) for e in result.chosen.values()]
        views[(name,)] = _bars(sorted(regrets, key=lambda item: item[1].mean))
    return Intervals("Regret", [Switch("setting", options)], views, "regret, points of test accuracy")


def _bars(regrets: list[tuple[str, Interval]]) -> tuple[list[str], list[float], list[float]]:
    return [name for name, _ in regrets], [r.mean for _, r in regrets], [r.half for _, r in regrets]


def _settings(found: list[SettingResult], order: list[str]) -> list[Block]:
    blocks: list[Block] = [_curves(found, order)]
    for result in found:
        rows = []
        for e in sorted(result.chosen.values(), key=lambda e: -sum(e.test)):
            rows.append([
                e.rule.label, e.output.replace("_", " "), _interval(Interval.of(e.test)), _interval(result.regret(e)),
                f"{e.rate:g}{' (edge)' if e.edge else ''}",
                *(_percent(e.mean_of(name)) for name in ("worst_tenth", "rare", "never")),
                _number(e.mean_of("correlation")),
            ])  # fmt: skip
        columns = [
            "rule", "served model", "test accuracy", "regret", "rate", "worst tenth", "rarely available",
            "never available", "correlation",
        ]  # fmt: skip
        filled = [i for i in range(len(columns)) if any(row[i] for row in rows)]  # mostly no client is never available
        rows = [[row[i] for i in filled] for row in rows]
        blocks.append(Table(result.setting.name, [columns[i] for i in filled], rows, words=2))
    return blocks


def _curves(found: list[SettingResult], order: list[str]) -> Curves:
    views: dict[Key, View] = {}
    for result in found:
        series = [s for e in result.chosen.values() if (s := _series(e)) is not None]
        panel = Panel(result.setting.name, series, "test accuracy, %", "round")
        views[(result.setting.name,)] = View(panel, {"rounds": [s.x for s in series]})
    options = {result.setting.name: result.setting.name for result in found}
    note = "Every rule at its own best rate and served model."
    return Curves(
        "Test accuracy over the rounds", [Switch("setting", options)], {"rounds": "round"}, views, note, order
    )


def _series(found: Entry) -> Series | None:
    rounds = found.rows[0].rounds
    same = [row for row in found.rows if row.rounds == rounds]
    return Series(found.rule.label, list(rounds), [[100 * v for v in row.curve] for row in same]) if rounds else None


def _interval(value: Interval) -> str:
    return f"{value.mean:.1f}" + ("" if math.isnan(value.half) else f" ± {value.half:.1f}")


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"
