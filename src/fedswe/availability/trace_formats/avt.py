"""The .avt files of Godfrey's repository of availability traces: a line per node with its sessions.

A line is: id, number of sessions, start and end of the first session, of the second, and so on, in seconds.
"""

from __future__ import annotations

from pathlib import Path

from fedswe.availability.trace_formats.spans import Spans, Trace
from fedswe.errors import FedsweError, require


def read(path: Path) -> Trace:
    available, observed = Spans(str(path)), Spans(str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeError:
        raise FedsweError(f"{path} is not UTF-8 text") from None
    never: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split("#")[0].split()
        if not cells:
            continue
        where = f"{path}: line {number}"
        require(
            len(cells) >= 2 and cells[1].isascii() and cells[1].isdigit() and len(cells[1]) < 10,
            f"{where} does not begin with an id and a number of sessions",
        )
        times = cells[2:]
        require(
            len(times) == 2 * int(cells[1]),
            f"{where} has {len(times)} times for {cells[1]} sessions: give two for each",
        )
        try:
            seconds = [float(time) for time in times]
        except ValueError as error:
            raise FedsweError(f"{where}: {error}") from None
        if seconds:
            available.add(cells[0], seconds[::2], seconds[1::2])
        else:
            never.append(cells[0])
    require(available.start, f"{path} has no sessions")
    if never:  # nodes without a session are known only by the time in which the others were observed
        first, last = min(available.start), max(available.end)
        for node in dict.fromkeys([*available.devices, *never]):
            observed.add(node, [first], [last])
    return Trace(available, observed)
