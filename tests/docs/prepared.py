"""What a reader of a page has at hand: their own arrays and logs, which the page takes for granted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from tests.docs.reader import Reader


def own_arrays(reader: Reader) -> None:
    """Five clients with inputs and labels, and a log of their phones."""
    rng = np.random.default_rng(0)
    clients = [(rng.standard_normal((30, 20)), rng.integers(0, 3, 30)) for _ in range(5)]
    log = [f"phone{i},{600 * t},{600 * t + 500}" for i in range(5) for t in range(8) if rng.random() < 0.7]
    (reader.folder / "phones.csv").write_text("\n".join(["client,start,end", *log]))
    reader.names |= {"clients": clients, "test_inputs": clients[0][0], "test_labels": clients[0][1]}


def own_devices(reader: Reader) -> None:
    """Records of 40 devices: a table of rounds, and a log of two days."""
    rng = np.random.default_rng(0)
    table = (rng.random((60, 40)) < 0.5).astype(int)
    np.savetxt(reader.folder / "rounds.csv", table, fmt="%d", delimiter=",")
    begin = datetime(2026, 3, 1, 18, tzinfo=UTC)
    rows = [
        (f"phone-{i}", begin + timedelta(hours=int(hour)), begin + timedelta(hours=int(hour) + 1, minutes=20))
        for i in range(40)
        for hour in np.flatnonzero(rng.random(24) < 0.4) * 2
    ]
    lines = [f"{name},{start.isoformat()},{end.isoformat()}" for name, start, end in rows]
    (reader.folder / "phones.csv").write_text("\n".join(["device,start,end", *lines]))
    names, starts, ends = zip(*rows, strict=True)
    frame = {"client": names, "start": [s.timestamp() for s in starts], "end": [e.timestamp() for e in ends]}
    reader.names |= {"array": table, "probabilities": np.full(table.shape, 0.5), "frame": frame}


PREPARED = {
    "docs/extending.md": own_arrays,
    "docs/your-devices.md": own_devices,
}
