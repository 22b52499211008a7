"""Ctrl-C and its relatives: the command ends at once, with all its processes, and says how to go on."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import process, wait_for, workers_of

ENDLESS = ["task.clients=10", "task.alpha=1", "rounds=1000000", "record.checkpoint=5"]
# What runs in the background may ignore SIGINT, and so would what it starts.
PIPES = {
    "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True,
    "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
}  # fmt: skip


def test_a_run_says_how_to_go_on(tmp_path):
    running = process("run", *ENDLESS, cwd=tmp_path, **PIPES)
    wait_for(lambda: list(tmp_path.glob("runs/*/checkpoint.safetensors")))
    for _ in range(2):  # as `timeout -s INT` does: to the command, and to its group
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, "")
    assert out.endswith("stopped   continue with: fedswe run --resume runs/001-fedswe-sine-digits\n")


@pytest.mark.parametrize(
    ("send", "number"), [(os.kill, signal.SIGINT), (os.killpg, signal.SIGINT), (os.kill, signal.SIGKILL)]
)
def test_a_comparison_leaves_no_process(tmp_path, send, number):
    words = ["compare", *ENDLESS, "--algorithms", "fedswe,fedavg,mifa", "--jobs", 2, "--out", tmp_path / "out"]
    running = process(*words, **PIPES)
    workers = workers_of(running, tmp_path / "out")
    assert len(workers) == 2
    send(running.pid, number)
    err = running.communicate(timeout=60)[1]
    if number == signal.SIGINT:
        assert (running.returncode, err) == (130, "")
    wait_for(lambda: not any(lives(worker) for worker in workers))


def lives(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
