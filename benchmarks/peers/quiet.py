"""How much of the processors other programs take, by Linux's /proc; on other systems nothing is known of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
KNOWN = STAT.exists()


def wait_until_idle(seconds: float) -> None:
    """Wait until other programs leave the processors alone for two seconds, or the time is up."""
    end = time.monotonic() + seconds
    while KNOWN and time.monotonic() < end:
        others = Others()
        time.sleep(2)
        if others.share() < 0.05:
            return


class Others:
    """The share of all processors that was taken, since this object was made, by programs we did not start."""

    def __init__(self) -> None:
        self.ours: dict[int, int] = {}  # ticks of each of our processes when last seen, the ended ones too
        self.start = machine_ticks() if KNOWN else (0, 0)
        self.own_start = self.own()

    def own(self) -> int:
        if KNOWN:
            self.ours |= family_ticks(os.getpid())
        return sum(self.ours.values())

    def share(self) -> float:
        """To be asked often: what a process of ours did after it was last seen counts as others'."""
        if not KNOWN:
            return 0.0
        own = self.own() - self.own_start
        busy, total = (now - then for now, then in zip(machine_ticks(), self.start, strict=True))
        return max(0.0, (busy - own) / max(total, 1))


def machine_ticks() -> tuple[int, int]:
    """Busy and total time of all processors so far."""
    ticks = [int(part) for part in STAT.read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def family_ticks(root: int) -> dict[int, int]:
    """Processor time of a process and of all its descendants."""
    parent, used = {}, {}
    for folder in STAT.parent.glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        pid = int(folder.name)
        parent[pid], used[pid] = int(fields[1]), int(fields[11]) + int(fields[12])

    def is_ours(pid: int) -> bool:
        while pid in parent and pid != root:
            pid = parent[pid]
        return pid == root

    return {pid: ticks for pid, ticks in used.items() if is_ours(pid)}
