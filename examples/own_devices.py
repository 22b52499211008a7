"""Your devices: a log of when each phone was online says who is available in which round.

python own_devices.py [FOLDER]      # writes phones.csv into the folder, or into a temporary one
"""

import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fedswe
from fedswe.algorithms import FedAvg, FedSWE
from fedswe.availability import Intervals
from fedswe.tasks import Digits


def write_log(file: Path) -> None:
    """Eighty phones that charge on three evenings, for three to nine hours."""
    lines = ["device,start,end"]
    for night in range(3 * 80):
        start = datetime(2026, 3, 1 + night // 80, 19, tzinfo=UTC) + timedelta(minutes=random.randrange(300))
        end = start + timedelta(minutes=random.randrange(180, 540))
        lines.append(f"phone-{night % 80},{start.isoformat()},{end.isoformat()}")
    file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    random.seed(1)
    file = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "phones.csv"
    write_log(file)
    phones = Intervals(str(file), round_seconds=1800, start="2026-03-01T18:00:00Z")
    task, rounds = Digits(clients=40, alpha=1.0), phones.rounds()
    runs = {
        type(a).__name__: fedswe.Experiment(rounds=rounds, algorithm=a, availability=phones, task=task)
        for a in (FedSWE(), FedAvg())
    }
    for _, row in fedswe.compare(runs, seeds=(3,), jobs=1).summary.iterrows():
        print(f"{row.algorithm:8}{row.model:13}test accuracy {row.test_accuracy_mean:.3f}")
