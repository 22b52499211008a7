"""Who reported in every round: the record of a run, also of one that was stopped and resumed."""

import pytest

from fedswe.experiment import runner
from fedswe.experiment.configuration import load
from fedswe.results.reported import FILE, read_reported

SETTINGS = [
    "rounds=9", "availability.p=0.5", "task.name=quadratic", "task.centers=[0,1,2,3,4,5,6,7,8,9,10]",
    "evaluate.every=4", "record.checkpoint=3", "algorithm.name=fedavg",
]  # fmt: skip


def test_all_rounds_of_a_run(tmp_path):
    result = runner.run(load(None, SETTINGS), tmp_path / "run")
    found = read_reported(tmp_path / "run" / FILE)
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


@pytest.mark.parametrize(
    "content",
    [b"", b"clients", b"clients 11", b"clients 0\nff\n", b"clients -3\nff\n", b"clients 9999999999999999\nff\n",
     b"x 3\nff\n", b"clients 11\nzzzz\n", b"clients 11\n\xff\xff\xff\xff\n"],
)  # fmt: skip
def test_a_damaged_record_is_none(content, tmp_path):
    (tmp_path / FILE).write_bytes(content)
    assert read_reported(tmp_path / FILE) is None


def test_a_torn_last_line_is_no_round(tmp_path):
    (tmp_path / FILE).write_text("clients 11\n0020\nff")
    assert read_reported(tmp_path / FILE).tolist() == [[i == 10 for i in range(11)]]
