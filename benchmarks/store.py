"""A tensor in SQLite or in a file beside it: seconds per round and peak memory.

    python benchmarks/store.py [MEGABYTES ...]

A round writes one tensor, deletes the one of two rounds ago and commits, as fedswe.flower.store does. Each case has a
process of its own. Two cores, 2026-11-18: at 1 and 10 MB both take less than 0.05 s; at 100 MB a blob takes 0.46 s and
200 MB more memory than a file, which takes 0.11 s; SQLite's limit is 1 GB.
"""

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 6


def round_seconds(kind: str, megabytes: int, folder: Path) -> float:
    """The mean time of the last rounds."""
    tensor, taken = memoryview(os.urandom(megabytes << 20)), []
    db = sqlite3.connect(folder / "store.db", isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE model (round INTEGER PRIMARY KEY, tensors)")
    for t in range(ROUNDS):
        began = time.monotonic()
        db.execute("BEGIN IMMEDIATE")
        if kind == "file":
            with open(folder / f"{t}", "wb") as file:
                file.write(tensor)
                file.flush()
                os.fsync(file.fileno())
        db.execute("INSERT INTO model VALUES (?, ?)", (t, tensor if kind == "blob" else str(t)))
        db.execute("DELETE FROM model WHERE round < ?", (t - 1,))
        db.execute("COMMIT")
        (folder / f"{t - 2}").unlink(missing_ok=True)
        taken.append(time.monotonic() - began)
    return sum(taken[2:]) / len(taken[2:])


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("blob", "file"):
        with tempfile.TemporaryDirectory() as folder:
            seconds = round_seconds(sys.argv[1], int(sys.argv[2]), Path(folder))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{sys.argv[2]:>5s} MB as a {sys.argv[1]}: {seconds:.3f} s a round, {peak:.0f} MB")
    else:
        for megabytes in sys.argv[1:] or ["1", "10", "100"]:
            for kind in ("blob", "file"):
                subprocess.run([sys.executable, __file__, kind, megabytes], check=True)
