"""Who reported in every round: the record of a run, also of one that was stopped and resumed."""

import numpy as np
import pytest

from fedswe.experiment import runner
from fedswe.experiment.configuration import load

SETTINGS = [
    "rounds=9", "availability.p=0.5", "task.name=quadratic", "task.centers=[0,1,2,3,4,5,6,7,8,9,10]",
    "evaluate.every=4", "record.checkpoint=3", "algorithm.name=fedavg",
]  # fmt: skip


FILE = "reported.txt"


def test_all_rounds_of_a_run(tmp_path):
    result = runner.run(load(None, SETTINGS), tmp_path / "run")
    title, *lines = (tmp_path / "run" / FILE).read_text().splitlines()
    assert title == "clients 11"
    bits = np.frombuffer(bytes.fromhex("".join(lines)), np.uint8).reshape(len(lines), -1)
    found = np.unpackbits(bits, axis=1, count=11)
    assert found.shape == (9, 11)
    rounds = result.history["round"].astype(int)[1:]
    assert found.sum(1)[rounds - 1].tolist() == result.history["reported"][1:].tolist()
    assert 0 < found.mean() < 1


def test_a_resumed_run_has_every_round_once(tmp_path):
    def stop(t, row):
        if t == 7:  # after the checkpoint of round 6, and some rounds of later
            raise RuntimeError("killed")

    whole = tmp_path / "whole"
    runner.run(load(None, SETTINGS), whole)
    with pytest.raises(RuntimeError):
        runner.run(load(None, SETTINGS), tmp_path / "run", stop)
    with open(tmp_path / "run" / FILE, "a") as file:
        file.write("ffff\nf")  # what a killed process may have written after its checkpoint
    runner.resume(tmp_path / "run")
    assert (tmp_path / "run" / FILE).read_bytes() == (whole / FILE).read_bytes()


def test_a_run_whose_record_is_missing_is_resumed_without_one(tmp_path):
    def stop(t, row):
        if t == 7:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        runner.run(load(None, SETTINGS), tmp_path / "run", stop)
    (tmp_path / "run" / FILE).unlink()
    assert runner.resume(tmp_path / "run").history.last["round"] == 9
    assert not (tmp_path / "run" / FILE).exists()
