"""What a report says about a reproduction: verdicts on claims, tables and curves, from the files that it wrote."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedswe.errors import FedsweError
from fedswe.plotting import Panel, Series
from fedswe.report.blocks import Block, Section, Table
from fedswe.report.charts import Curves, Key, Switch, View

Row = dict[str, str]

_CLAIMS = {"id", "status", "where", "margin", "threshold", "standard_error", "unit", "margin_of"}
_TABLE = {"algorithm", "column", "ours_mean", "ours_std", "ours_seeds"}
_CURVES = {"panel", "label", "x_name", "x", "y_name", "mean", "low", "high"}
_NOT_KEYS = (
    "column", "unit", "profile", "ours_mean", "ours_std", "ours_seeds", "paper_mean", "paper_std", "paper_seeds",
    "difference", "pooled_std", "pooled_over", "difference_in_pooled_std",
)  # fmt: skip
_ROWS = 400


def scales_in(path: Path) -> list[Path]:
    """The folders of scale and profile, such as small-released, that hold verdicts."""
    return [folder for folder in (path, *sorted(path.iterdir())) if (folder / "claims.csv").is_file()]


def reproduction_sections(path: Path) -> tuple[list[str], list[Section]]:
    claims = _read(path / "claims.csv", _CLAIMS)
    count = Counter(row["status"] for row in claims)
    name = path.resolve().name
    summary = [
        f"Reproduction {name}, verdicts on {len(claims)} claims: "
        + "; ".join(f"{status}: {number}" for status, number in count.most_common())
        + "."
    ]
    sections = [Section(f"Claims, {name}", [_claims(claims)])]
    tables: list[Block] = []
    figures: list[Block] = []
    for file in sorted(path.glob("*.csv")):
        header = _header(file)
        if header >= _TABLE:
            tables.append(_table(file))
        elif header >= _CURVES:
            figures += _curves(file)
    if tables:
        sections.append(Section(f"Tables, {name}", tables))
    if figures:
        sections.append(Section(f"Figures, {name}", figures))
    return summary, sections


def _claims(claims: Sequence[Row]) -> Table:
    rows = [
        [row["id"], row["status"], row["where"], row["margin_of"], _margin(row), row["threshold"], row["unit"]]
        for row in claims
    ]
    columns = ["claim", "verdict", "where it holds", "margin of", "margin", "must exceed", "unit"]
    note = "± is one standard error over seeds. What decides a verdict is in claims.md beside the tables."
    return Table("Verdicts on the claims of the paper", columns, rows, note, words=4)


def _margin(row: Row) -> str:
    error = _number(row["standard_error"])
    margin = _number(row["margin"])
    if margin is None:
        return row["margin"]
    return f"{margin:.3g}" + (f" ± {error:.2g}" if error else "")


def _table(file: Path) -> Table:
    rows = _read(file, _TABLE)
    keys = [column for column in rows[0] if column not in _NOT_KEYS] if rows else []
    columns = list(dict.fromkeys(row["column"] for row in rows))
    by_key: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        by_key.setdefault(tuple(row[key] for key in keys), {})[row["column"]] = _cell(row)
    shown = [[*key, *(of.get(column, "") for column in columns)] for key, of in by_key.items()]
    note = "Mean ± standard deviation over seeds; in brackets the number of the paper, where it has one."
    if len(shown) > _ROWS:
        note += f" The first {_ROWS} of {len(shown)} rows; all are in {file.name}."
    return Table(file.stem, [*keys, *columns], shown[:_ROWS], note, words=len(keys))


def _cell(row: Row) -> str:
    mean, std, paper = (_number(row.get(name, "")) for name in ("ours_mean", "ours_std", "paper_mean"))
    if mean is None:
        return row["ours_mean"] or "not measured"
    text = f"{mean:.1f}" + (f" ± {std:.1f}" if std is not None else "")
    return text + (f" [{paper:.1f}]" if paper is not None else "")


def _curves(file: Path) -> Iterator[Block]:
    rows = _read(file, _CURVES)
    scores: dict[str, set[str]] = {}
    for row in rows:
        scores.setdefault(row["panel"], set()).add(row["y_name"])
    panels: dict[str, dict[str, list[Row]]] = {}
    for row in rows:  # train and test accuracy may have the same name of a panel
        score = [_plain(row["y_name"])] if len(scores[row["panel"]]) > 1 else []
        name = ", ".join(filter(None, [row["panel"], *score]))
        panels.setdefault(name, {}).setdefault(row["label"], []).append(row)
    views: dict[Key, View] = {}
    for name, curves in panels.items():
        series = [_series(label, of) for label, of in curves.items()]
        first = next(iter(curves.values()))[0]
        panel = Panel(name, series, _plain(first["y_name"]), first["x_name"], _is_log(series))
        views[(name,)] = View(panel, {"x": [s.x for s in series]})
    if views:
        x_name = rows[0]["x_name"]
        yield Curves(file.stem, [Switch("panel", {n: n or "all" for n in panels})], {"x": x_name}, views)


def _series(label: str, rows: Sequence[Row]) -> Series:
    """Mean and both ends of the band as three seeds: their mean and deviation are those of the file."""
    x = [_number(row["x"]) or 0.0 for row in rows]
    ends = [[_number(row[name]) for row in rows] for name in ("low", "mean", "high")]
    return Series(label, x, [[math.nan if v is None else v for v in values] for values in ends])


def _is_log(series: Sequence[Series]) -> bool:
    """Whether the bands are those of logarithms: the mean is then the geometric one of both ends."""
    low, mean, high = np.concatenate([np.asarray(s.seeds, dtype=np.float64) for s in series], axis=1)
    known = np.isfinite(low + mean + high) & (low > 0) & (high > low)
    geometric, arithmetic = np.sqrt(low[known] * high[known]), (low[known] + high[known]) / 2
    return bool(known.any() and (abs(geometric - mean[known]) < abs(arithmetic - mean[known])).all())


def _plain(name: str) -> str:
    """The names of consensus errors are formulas in TeX, which a page does not typeset."""
    return "consensus error" if name.startswith("$") else name


def _header(file: Path) -> set[str]:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            return set(next(csv.reader(lines), []))
    except (OSError, UnicodeDecodeError, csv.Error):
        return set()


def _read(file: Path, needed: set[str]) -> list[Row]:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise FedsweError(f"{file} is damaged: give the command of the reproduction again") from None
    if any(row.get(name) is None for row in rows for name in needed):
        raise FedsweError(
            f"{file} is damaged (a column or a value is missing): give the command of the reproduction again"
        )
    return rows


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
