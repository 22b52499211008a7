"""The script that measures throughput, small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "throughput.py"


def test_throughput():
    words = ["--workloads", "softmax", "--repetitions", "1", "--seconds", "0.1", "--json"]
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=True)
    (result,) = json.loads(done.stdout)
    assert "softmax 1/1: fedswe" in done.stderr
    assert min(result["client_steps_per_s"], result["plain_steps_per_s"]) > 0  # how fast is for a quiet machine to say
    assert result["ratio"] == pytest.approx(result["client_steps_per_s"] / result["plain_steps_per_s"])
