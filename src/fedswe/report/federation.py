"""What a report says about a federation of a Flower app, from its store, also while its server runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedswe.charts import Panel, Series, numbers
from fedswe.report.page import Report, Section, curves
from fedswe.results.table import TAIL, in_words

_AWAY = 20  # rounds of absence after which a client is an alarm, as in fedswe flower status
_WHERE = {"score": "at the server", "evaluate": "at the clients", "train": "in training"}
_SHOWN = ("client", "joined", "merged", "last_merged", "away", "failures", "removed", "why")


def federations_in(path: Path) -> list[Path]:
    return [file for file in sorted(path.glob("*.db")) if file.is_file() and _is_store(file)]


def _is_store(file: Path) -> bool:
    """Other programs have databases too; nothing is written to them."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as db:
            return bool(db.execute("SELECT 1 FROM fact, round, member LIMIT 1").fetchone())
    except sqlite3.Error:
        return False


def federation_reports(path: Path) -> list[Report]:
    return list(map(_report, federations_in(path)))


def _report(file: Path) -> Report:
    from fedswe.flower.status import status  # the rest of a report does without Flower
    from fedswe.flower.store import Records

    with closing(Records(file)) as records:
        found, rows = status(records, _AWAY), records.rounds()
    panels = _panels(rows)
    t, merged, title, sentences = found["rounds"], len(rows[-1]["merged"]), "", list[str]()
    for panel in panels[:1]:
        (series,) = panel.series
        values = pd.Series(np.ravel(series.seeds), series.x)
        title = f": {panel.title} {values.iloc[-1]:.4g}"
        sentences = [f"Mean over the last {min(TAIL, t)} rounds: {values[values.index > t - TAIL].mean():.4g}."]
    sentences.append(f"{merged} of {len(found['clients'])} clients were merged in the last round.")
    counts = [
        Series(what, [row["round"] for row in rows], [[len(row[what]) for row in rows]])
        for what in ("merged", "failed", "absent")
    ]
    clients = pd.DataFrame([{in_words(key): str(of[key] or "") for key in _SHOWN} for of in found["clients"]])
    figures = {"Scores": curves({"round": numbers(panels)})} if panels else {}
    figures["Clients of each round"] = curves({"round": numbers([Panel("clients", counts, "clients")])})
    sections = [Section("Rounds", figures=figures), Section("Clients", tables={"Merged, away and failed": clients})]
    alarms = [f"Alarm: {alarm}." for alarm in found["alarms"]]
    return Report(f"{found['rule']} after {t} rounds{title}", sentences, sections, alarms)


def _panels(rows: list[dict[str, Any]]) -> list[Panel]:
    """The metrics that are numbers; accuracies first, and what the server has measured before what clients say."""
    panels = []
    for kind, where in _WHERE.items():
        table = pd.DataFrame([row.get(kind) or {} for row in rows], [row["round"] for row in rows])
        for name, values in table.select_dtypes("number").items():
            known = values.dropna()
            series = Series(in_words(str(name)), list(known.index), [list(known)])
            panels.append(Panel(f"{series.label} {where}", [series], series.label))
    return sorted(panels, key=lambda panel: "acc" not in panel.title)
