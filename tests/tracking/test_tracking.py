"""Whatever a tracker does, its run goes on; what is wrong is said once, in one line."""

import warnings

import pytest

from fedswe import run
from fedswe.errors import FedsweError, TrackerWarning
from fedswe.experiment.configuration import load
from fedswe.tracking import check_trackers

HERE = "tests.tracking.trackers"
WORDS = ["task.name=quadratic", "availability.p=0.5", "rounds=12", "evaluate.every=3"]


def test_rows_and_status(tmp_path):
    result = run(load(None, [*WORDS, f"track={HERE}:Lines:file=mine.txt"]), tmp_path / "run")
    first, *rows, status = (tmp_path / "run" / "mine.txt").read_text().splitlines()
    assert (first, status) == ("start 12", "finished")
    assert [row.split()[0] for row in rows] == ["0", "3", "6", "9", "12"]
    assert rows[0].split()[1:] == result.history.columns[1:]


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("start", "SystemExit: no connection"),
        ("log", "OSError: round 0 is lost"),
        ("finish", "ValueError: https://host:5000/a has no end"),  # not its password
    ],
)
def test_a_failing_tracker_warns_once(tmp_path, at, reason):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(load(None, [*WORDS, f"track={HERE}:Failing:at={at},{HERE}:Lines"]), tmp_path / "run")
    assert result.history.last["round"] == 12
    (text,) = [str(w.message) for w in caught if issubclass(w.category, TrackerWarning)]
    assert text.startswith(f"the tracker {HERE}:Failing:at={at} failed (")
    assert reason in text
    assert "\n" not in text
    assert (tmp_path / "run" / "tracked.txt").read_text().endswith("finished\n")  # the other one is not disturbed


@pytest.mark.parametrize(("at", "left"), [(0, None), (6, "failed")])
def test_a_run_that_fails(tmp_path, at, left):
    """One that fails at its start leaves nothing, and no tracker hears of it."""
    value = load(None, [*WORDS, f"track={HERE}:Lines", f"record.columns={HERE}:FailsAt:round={at}"])
    with pytest.raises(ArithmeticError):
        run(value, tmp_path / "run")
    file = tmp_path / "run" / "tracked.txt"
    assert (file.read_text().splitlines()[-1] if file.parent.exists() else None) == left


@pytest.mark.parametrize(
    ("track", "message"),
    [
        (["tensorbord"], "unknown tracker 'tensorbord': did you mean tensorboard?"),
        (["mlflow:project=a"], "unknown key track.project of mlflow"),
        ([f"{HERE}:HERE"], "is not a class derived from fedswe.tracking.Tracker"),
        (["tests.tracking.trackers:Nobody"], "has no class Nobody"),
    ],
)
def test_mistakes(track, message):
    with pytest.raises(FedsweError, match=r"^[^\n]*$") as caught:
        check_trackers(track)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_one_line_before_the_run(tmp_path, monkeypatch, name):
    monkeypatch.setattr("fedswe.tracking.find_spec", lambda package: None)
    with pytest.raises(FedsweError, match=rf"needs the package {name}: pip install 'fedswe\[{name}\]'$"):
        run(load(None, [*WORDS, f"track={name}"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_writes_into_the_run_needs_one():
    with pytest.raises(FedsweError, match="tensorboard writes into the directory of the run: give `out`"):
        run(load(None, [*WORDS, "track=tensorboard"]))


def test_a_tracker_is_named_once():
    with pytest.raises(FedsweError, match="track names one tracker twice"):
        load(None, ["track=mlflow,mlflow"])
