"""SIGINT and SIGTERM: the command ends with all its processes, without a traceback, and says how to continue."""

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


def test_a_run_says_how_to_continue(tmp_path):
    running = process("run", *ENDLESS, cwd=tmp_path, **PIPES)
    wait_for(lambda: list(tmp_path.glob("runs/*/checkpoint.safetensors")))
    for _ in range(2):  # as `timeout -s INT` does: to the command, and to its group
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, "")
    assert out.endswith("stopped   continue with: fedswe run --resume runs/001-fedswe-sine-digits\n")


def test_a_run_without_a_checkpoint_does_not_recommend_to_resume(tmp_path):
    running = process("run", *ENDLESS, "record.checkpoint=0", "--out", tmp_path / "out", **PIPES)
    wait_for((tmp_path / "out" / "history.csv").exists)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, "")
    assert out.endswith(f"stopped   no checkpoint was saved in {tmp_path}/out: start the run again\n")


@pytest.mark.parametrize("library", ["libc10", "libtorch_python", "_multiarray_umath"])
def test_an_interrupt_during_the_imports_is_silent(tmp_path, library):
    running = process("run", *ENDLESS, "--out", tmp_path / "out", **PIPES)
    maps = Path(f"/proc/{running.pid}/maps")
    wait_for(lambda: library in maps.read_text())
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, "")
    assert "--resume" not in out


def test_a_terminated_run_saves_a_checkpoint_and_ends_with_the_same_bits(tmp_path):
    words = ["task.clients=10", "task.alpha=1", "rounds=1000", "evaluate.every=100", "record.checkpoint=0"]
    whole = process("run", *words, "--quiet", "--out", tmp_path / "whole", **PIPES)
    assert whole.communicate(timeout=300) == (f"{tmp_path}/whole\n", "")
    running = process("run", *words, "--out", tmp_path / "out", **PIPES)
    wait_for((tmp_path / "out" / "history.csv").exists)
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (128 + signal.SIGTERM, "")
    assert out.endswith(f"stopped   continue with: fedswe run --resume {tmp_path}/out\n")
    assert (tmp_path / "out" / "checkpoint.safetensors").is_file()
    assert not (tmp_path / "out" / "model.safetensors").exists()
    resumed = process("run", "--resume", tmp_path / "out", **PIPES)
    assert resumed.communicate(timeout=300)[1] == ""
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "out")]
    assert models[0] == models[1]


@pytest.mark.parametrize(
    ("send", "number"), [(os.kill, signal.SIGINT), (os.killpg, signal.SIGINT), (os.kill, signal.SIGKILL)]
)
def test_a_comparison_leaves_no_process(tmp_path, send, number):
    words = ["compare", *ENDLESS, "--algorithms", "fedswe,fedavg,mifa", "--jobs", 2, "--out", tmp_path / "out"]
    running = process(*words, **PIPES)
    workers = workers_of(running, tmp_path / "out")
    assert len(workers) == 2
    send(running.pid, number)
    err = running.communicate(timeout=300)[1]
    if number == signal.SIGINT:
        assert (running.returncode, err) == (130, "")
    wait_for(lambda: not any(lives(worker) for worker in workers))


def lives(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
