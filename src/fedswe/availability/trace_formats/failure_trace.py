"""Events of the Failure Trace Archive: event_trace.tab, a row per node and event.

A node is available in events of type 1 and unavailable in those of type 0; it is observed in both. Times are seconds
since 1970. Other types describe a state of an available node and are left out.
"""

from __future__ import annotations

import csv
from pathlib import Path

from fedswe.availability.trace_formats.spans import Spans, Trace
from fedswe.errors import FedsweError, require

_COLUMNS = {
    "node": ("node_id",),
    "type": ("event_type",),
    "start": ("event_start_time",),
    "end": ("event_end_time", "event_stop_time"),
}
_UNAVAILABLE, _AVAILABLE = "0", "1"


def _header(line: str) -> list[str]:
    return [cell.strip().lower() for cell in line.lstrip("#").split("\t")]


def recognised(head: bytes) -> bool:
    first = _header(head.split(b"\n")[0].decode("utf-8", errors="replace").strip())
    return all(any(name in first for name in names) for names in _COLUMNS.values())


def read(path: Path) -> Trace:
    available, observed = Spans(str(path)), Spans(str(path))
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            names = _header(stream.readline().strip())
            places = {key: next(names.index(n) for n in known if n in names) for key, known in _COLUMNS.items()}
            for number, row in enumerate(csv.reader(stream, delimiter="\t"), 2):
                if not row:
                    continue
                require(len(row) > max(places.values()), f"{path}: line {number} has only {len(row)} columns")
                node, kind = row[places["node"]].strip(), row[places["type"]].strip()
                if kind not in (_UNAVAILABLE, _AVAILABLE):
                    continue
                try:
                    start, end = float(row[places["start"]]), float(row[places["end"]])
                except ValueError as error:
                    raise FedsweError(f"{path}: line {number}: {error}") from None
                if kind == _AVAILABLE:
                    available.add(node, [start], [end])
                observed.add(node, [start], [end])
    except (UnicodeError, csv.Error) as error:
        raise FedsweError(f"{path} cannot be read ({error})") from None
    require(available.start, f"{path} has no events of type 1 (available)")
    return Trace(available, observed, dated=True)
