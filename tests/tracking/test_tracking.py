"""Whatever a tracker does, its run goes on; what is wrong is said once, in one line."""

import warnings

import pytest

from fedswe import run
from fedswe.errors import FedsweError, TrackerWarning
from fedswe.experiment.configuration import load
from fedswe.experiment.runner import Runner, advance
from fedswe.tracking.tracker import check_trackers
from fedswe.tracking.tracking import Tracking, _TrackerThread
from tests.tracking import trackers

HERE = "tests.tracking.trackers"
WORDS = ["task.name=quadratic", "availability.p=0.5", "rounds=12", "evaluate.every=3"]


@pytest.fixture(autouse=True)
def released():
    yield
    trackers.RELEASE.set()
    trackers.RELEASE.clear()


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


def test_a_hanging_tracker_loses_rows_and_is_left(tmp_path):
    said = []
    tracking = Tracking([f"{HERE}:Hanging"], {"rounds": 12}, tmp_path, say=said.append, waiting=2, patience=0.05)
    for t in range(5):
        tracking.log({"round": t, "loss": 1.0})
    tracking.finish("finished")
    Tracking.wait([tracking])
    assert said == [
        f"the tracker {HERE}:Hanging does not keep up and loses rows: the run goes on",
        f"the tracker {HERE}:Hanging has not ended within 0.05 s: what it has not sent is lost",
    ]


def test_a_slow_tracker_hears_of_the_end(tmp_path):
    said = []
    tracking = Tracking([f"{HERE}:Late"], {"rounds": 12}, tmp_path, say=said.append, waiting=2)
    for t in range(5):
        tracking.log({"round": t, "loss": 1.0})
    tracking.finish("finished")
    trackers.RELEASE.set()
    Tracking.wait([tracking])
    assert (tmp_path / "tracked.txt").read_text().splitlines() == ["start 12", "0 loss", "1 loss", "finished"]
    assert said == [f"the tracker {HERE}:Late does not keep up and loses rows: the run goes on"]


def test_rows_of_an_earlier_process_come_first_however_many_they_are(tmp_path):
    said, earlier = [], [{"round": t, "loss": 1.0} for t in range(5)]
    tracking = Tracking([f"{HERE}:Late"], {"rounds": 12}, tmp_path, earlier=earlier, say=said.append, waiting=1)
    tracking.log({"round": 5, "loss": 1.0})
    tracking.finish("finished")
    trackers.RELEASE.set()
    Tracking.wait([tracking])
    rows = [f"{t} loss" for t in range(6)]
    assert (tmp_path / "tracked.txt").read_text().splitlines() == ["start 12", *rows, "finished"]
    assert said == []


def test_the_runs_of_a_stack_wait_for_a_hanging_tracker_together(monkeypatch):
    waits, join = [], _TrackerThread.join

    def noted(thread, seconds, patience):
        waits.append(seconds)
        join(thread, seconds, patience)

    monkeypatch.setattr(_TrackerThread, "join", noted)
    monkeypatch.setitem(Tracking.__init__.__kwdefaults__, "patience", 0.2)
    runners = [Runner(load(None, [*WORDS, f"seed={seed}", f"track={HERE}:Hanging"])) for seed in range(3)]
    with pytest.warns(TrackerWarning, match=r"has not ended within 0\.2 s"):
        for _ in advance(runners, 1):
            pass
    assert len(waits) == 3
    assert sum(waits) <= 0.2


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
        ([f"{HERE}:RELEASE"], "is not a class derived from fedswe.tracking.tracker.Tracker"),
        (["tests.tracking.trackers:Nobody"], "has no class Nobody"),
    ],
)
def test_mistakes(track, message):
    with pytest.raises(FedsweError, match=r"^[^\n]*$") as caught:
        check_trackers(track)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_one_line_before_the_run(tmp_path, monkeypatch, name):
    monkeypatch.setattr("fedswe.tracking.tracker.find_spec", lambda package: None)
    with pytest.raises(FedsweError, match=rf"needs the package {name}: pip install 'fedswe\[{name}\]'$"):
        run(load(None, [*WORDS, f"track={name}"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_writes_into_the_run_needs_one():
    with pytest.raises(FedsweError, match="tensorboard writes into the directory of the run: give `out`"):
        run(load(None, [*WORDS, "track=tensorboard"]))


def test_a_tracker_is_named_once():
    with pytest.raises(FedsweError, match="track names one tracker twice"):
        load(None, ["track=mlflow,mlflow"])
