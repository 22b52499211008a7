"""Event files as TensorBoard itself reads them."""

import pytest

from fedswe import resume, run
from fedswe.experiment.configuration import load

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

WORDS = ["task.name=quadratic", "availability.p=0.5", "rounds=20", "evaluate.every=2", "record.checkpoint=5"]


def scalars(folder):
    """By name, the values by round."""
    found = event_accumulator.EventAccumulator(str(folder))
    found.Reload()
    assert "configuration/text_summary" in found.Tags()["tensors"]
    return {name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]}


def expected(history):
    """TensorBoard keeps 32 bits."""
    names = [name for name in history.columns if name not in ("round", "seconds")]
    return {n: [(int(r["round"]), pytest.approx(r[n], rel=1e-6)) for r in history.rows] for n in names}


def test_the_scores_of_a_run(tmp_path):
    result = run(load(None, [*WORDS, "track=tensorboard"]), tmp_path / "run")
    found = scalars(tmp_path / "run" / "tensorboard")
    assert len(found.pop("seconds")) == 11
    assert found == expected(result.history)


def test_rounds_that_a_resumed_run_repeats_are_there_once(tmp_path):
    def killed(t, row):
        if t == 8:
            raise RuntimeError  # without a new checkpoint: the last one is of round 5

    with pytest.raises(RuntimeError):
        run(load(None, [*WORDS, "track=tensorboard"]), tmp_path / "run", killed)
    assert [t for t, _ in scalars(tmp_path / "run" / "tensorboard")["available"]] == [0, 2, 4, 6, 8]
    result = resume(tmp_path / "run")
    found = scalars(tmp_path / "run" / "tensorboard")
    found.pop("seconds")
    assert found == expected(result.history)
