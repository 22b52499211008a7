"""A run that is stopped saves where it is, and continues from there with the same bits."""

import pytest

from fedswe import resume, run
from fedswe.experiment.configuration import load
from fedswe.experiment.runner import StopRun


def test_a_stopped_run_with_a_trajectory_continues(tmp_path):
    words = ["task.name=quadratic", "availability.p=0.5", "rounds=9", "record.trajectory=true", "record.checkpoint=0"]
    value = load(None, words)
    run(value, tmp_path / "whole")

    def stop(t, row):
        if t == 4:
            raise StopRun

    with pytest.raises(StopRun):
        run(value, tmp_path / "stopped", stop)
    assert (tmp_path / "stopped" / "checkpoint.safetensors").is_file()
    resume(tmp_path / "stopped")
    for name in ("trajectory.csv", "model.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
