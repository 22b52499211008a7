"""Whole runs in simulated seconds: laws, both engines, checkpoints, stacks, comparisons, figures, real traces."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedswe
from fedswe.algorithms import F3AST, MIFA, FedAvg, FedAvgKnown, FedPBC, FedSWE
from fedswe.availability import Always, Intervals, Markov, Mask, Sine
from fedswe.clock import Rounds, Seconds
from fedswe.clock.seconds import COLUMNS
from fedswe.core.local import Local
from fedswe.errors import FedsweError, FedsweWarning
from fedswe.experiment.configuration import dump, load, load_text
from fedswe.experiment.experiment import Evaluate, Experiment, Record
from fedswe.experiment.runner import Runner, StopRun, advance
from fedswe.figures import plot
from fedswe.grid.runner import Executor, run_cells
from fedswe.grid.store import Cell, ResultStore
from fedswe.results.history import History
from fedswe.tasks import Quadratic
from tests.cli.command import fedswe as command
from tests.problems import centers
from tests.stacked import assert_same_as_alone

M = 8
TASK = Quadratic(centers=centers(M, 5), noise=0.1)
MASK = np.random.default_rng(7).random((60, M)) < 0.5
MASK[[4, 9]] = False  # empty rounds
SLOW = Seconds(step_seconds=9, step_sigma=1, download=2, upload=2, network_sigma=0.7, slot_seconds=70)


def experiment(**keys):
    given = {
        "rounds": 40,
        "dtype": "float64",
        "algorithm": FedSWE(k=3),
        "availability": Sine(p=0.5),
        "clock": SLOW,
        "task": TASK,
        "local": Local(steps=2, lr=0.05),
        "evaluate": Evaluate(every=4),
        "record": Record(checkpoint=0),
    }
    return Experiment(**{**given, **keys})


def scores(history, but=("seconds", *COLUMNS)):
    return [{name: value for name, value in row.items() if name not in but} for row in history.rows]


# rounds ------------------------------------------------------------------------------------------------
def test_rounds_are_the_default_and_add_nothing_to_the_history():
    plain = fedswe.run(experiment(clock=Rounds()))
    assert Experiment().clock == Rounds()
    assert plain.history.columns[:5] == ["round", "available", "reported", "echo_mean", "echo_max"]
    assert not set(plain.history.columns) & set(COLUMNS)
    assert fedswe.run(experiment()).history.columns[5:15] == list(COLUMNS)


AT_ONCE = Seconds(step_seconds=0, download=0, upload=0, pause=50, slot_seconds=50, min_clients=0)
ROWS = [(i, 100 * k + 7 * i, 100 * k + 7 * i + 60) for i in range(M) for k in range(40)]


@pytest.mark.parametrize("engine", ["loop", "batched"])
@pytest.mark.parametrize(
    ("algorithm", "availability"),
    [
        (FedSWE(k=3), Mask.from_array(MASK)),
        (F3AST(budget=2), Mask.from_array(MASK)),  # has seats
        (FedAvgKnown(), Sine(p=0.5)),  # needs probabilities
        (FedPBC(), Markov(p=0.4)),
        (MIFA(), Intervals.from_array(ROWS, round_seconds=50, start=0, mapping="id")),
        (FedAvgKnown(), Intervals.from_array(ROWS, round_seconds=50, start=0, mapping="id", wrap=True, prob="estimate",
                                             prob_window=5)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*the probabilities are estimates:fedswe.errors.FedsweWarning")
def test_clients_of_infinite_speed_and_rounds_of_one_length_are_the_plain_rounds(algorithm, availability, engine):
    fixed = replace(AT_ONCE, pause=0, deadline=50, early=False)
    given = {"algorithm": algorithm, "availability": availability, "engine": engine, "rounds": 30}
    plain = fedswe.run(experiment(**given, clock=Rounds()))
    for clock in (AT_ONCE, fixed):
        timed = fedswe.run(experiment(**given, clock=clock))
        assert scores(timed.history) == scores(plain.history)
        assert timed.models["server"].tolist() == plain.models["server"].tolist()
        passed = timed.history["simulated_seconds"] - 50 * timed.history["round"]
        assert set(passed.tolist()) == ({0.0} if clock is fixed else {0.0, -50.0})
        assert timed.history.last["wasted_seconds"] == 0


# what is lost ----------------------------------------------------------------------------------------------
def test_nothing_is_wasted_when_nobody_leaves():
    last = fedswe.run(experiment(availability=Always())).history.last
    assert last["total_selected"] == last["total_reported"] == 40 * M
    assert last["wasted_seconds"] == last["total_late"] == 0
    assert last["work_seconds"] > 0
    quick = fedswe.run(experiment(availability=Always(), clock=replace(SLOW, min_reports=0.5))).history.last
    assert quick["simulated_seconds"] < 0.6 * last["simulated_seconds"]
    assert quick["total_late"] == quick["total_reported"] == 40 * M / 2
    assert 0 < quick["wasted_seconds"] < quick["work_seconds"]


def test_every_selected_client_reports_or_drops_out_or_is_late():
    history = fedswe.run(experiment(clock=replace(SLOW, deadline=100), evaluate=Evaluate(every=1))).history
    parts = [
        history[f"total_{part}"] for part in ("reported", "dropped_before", "dropped_during", "dropped_after", "late")
    ]
    np.testing.assert_array_equal(history["total_selected"], np.sum(parts, axis=0))
    assert all(part[-1] > 0 for part in parts)
    np.testing.assert_array_equal(history["total_reported"], np.cumsum(history["reported"]))
    np.testing.assert_array_equal(history["total_selected"], np.cumsum(history["available"]))
    assert (np.diff(history["simulated_seconds"]) > 0).all()


def test_clients_that_do_not_report_stay_as_they_were():
    """The slow client is selected in every round, and nothing depends on its data or changes its state."""
    file = "client,step_seconds\n" + "".join(f"{i},{1000 if i == 2 else 1}\n" for i in range(M))
    ends = []
    for shift in (0.0, 5.0):
        moved = np.array(centers(M, 5))
        moved[2] += shift
        runner = Runner(
            experiment(task=Quadratic(centers=moved.tolist()), availability=Always(), clock=with_file(file))
        )
        for _ in advance([runner], 1):
            pass
        assert runner.engine.last.tolist() == [39, 39, -1, 39, 39, 39, 39, 39]
        assert runner.engine.client_models()[2].tolist() == runner.engine.problem.start.tolist()
        ends.append(runner.engine.server_model().tolist())
        assert runner.history.last["total_late"] == 40
    assert ends[0] == ends[1]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def with_file(text):
    Path("speeds.csv").write_text(text)
    return replace(SLOW, speed_file="speeds.csv", deadline=100, network_sigma=0)


def test_bytes_are_counted_by_the_algorithm_and_the_type():
    clock, always = Seconds(slot_seconds=1e5), Always()
    for algorithm, numbers in ((FedAvg(), 40 * M * 2 * 5), (FedSWE(k=3), (40 + 39) * M * 5)):
        for dtype, size in (("float32", 4), ("float64", 8)):
            run = fedswe.run(experiment(algorithm=algorithm, clock=clock, availability=always, dtype=dtype))
            assert run.history.last["bytes_sent"] == numbers * size


# the same bits -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("algorithm", [FedSWE(k=3), F3AST(budget=2), FedPBC()])
def test_both_engines_agree(algorithm):
    batched, loop = (fedswe.run(experiment(algorithm=algorithm, engine=name)) for name in ("batched", "loop"))
    for name in ("round", "available", "reported", *COLUMNS):
        np.testing.assert_array_equal(batched.history[name], loop.history[name])
    np.testing.assert_allclose(batched.models["server"], loop.models["server"], rtol=1e-10)


@pytest.mark.parametrize("engine", ["loop", "batched"])
@pytest.mark.parametrize(
    "availability", [Sine(p=0.5), Markov(p=0.4), Intervals.from_array(ROWS, round_seconds=50, mapping="id", wrap=True)]
)
def test_a_resumed_run_has_the_same_bits(engine, availability):
    fast = replace(SLOW, step_seconds=1, download=20, upload=20)  # sessions of the log last 60 s
    clock = fast if isinstance(availability, Intervals) else SLOW
    value = experiment(engine=engine, availability=availability, algorithm=F3AST(budget=3), clock=clock)
    whole = fedswe.run(value)
    assert whole.history["total_reported"][-1] > 10

    def stop(t, row):
        if t == 17:
            raise StopRun

    with pytest.raises(StopRun):
        fedswe.run(value, out="run", watch=stop)
    resumed = fedswe.resume("run")
    assert scores(resumed.history, ("seconds",)) == scores(whole.history, ("seconds",))
    assert resumed.models["server"].tolist() == whole.models["server"].tolist()


def test_runs_with_different_clocks_are_trained_as_one_stack():
    clocks = [Rounds(), SLOW, replace(SLOW, min_reports=2), replace(SLOW, limit=900), replace(SLOW, deadline=40)]
    histories = assert_same_as_alone([experiment(clock=clock) for clock in clocks], 1e-9)
    assert len({history.last.get("simulated_seconds") for history in histories}) == 5


# the end -----------------------------------------------------------------------------------------------------
def test_a_run_ends_with_the_record_of_availability():
    value = experiment(availability=Mask.from_array(MASK), rounds=500)
    with pytest.warns(FedsweWarning, match=r"the run ends after \d+ of 500 rounds: the availability is known until"):
        run = fedswe.run(value, out="run")
    ended = run.history.last["round"]
    assert 0 < ended < 500
    assert run.history.last["simulated_seconds"] >= 60 * 70 > run.history["simulated_seconds"][-2]
    again = fedswe.resume("run")  # it is finished
    assert again.history.last == run.history.last
    assert not Path("run/checkpoint.safetensors").exists()


def test_or_when_the_limit_has_passed_without_a_warning():
    run = fedswe.run(experiment(clock=replace(SLOW, limit=500), rounds=500, evaluate=Evaluate(every=1)))
    times = run.history["simulated_seconds"]
    assert times[-2] < 500
    assert 1 < run.history.last["round"] < 500


def test_rounds_are_not_those_of_the_record():
    assert experiment(availability=Mask.from_array(MASK)).rounds == 40
    assert Experiment(availability=Mask.from_array(MASK), task=TASK).rounds == 60
    assert Experiment(availability=Mask.from_array(MASK), task=TASK, clock=SLOW).rounds == 500


def test_a_grid_stores_runs_that_ended_early():
    value = load_text(dump(experiment(clock=replace(SLOW, limit=500), rounds=500)), "as files have it")
    cell, store = Cell("early", value), ResultStore(Path("grid"))
    with Executor(jobs=1) as workers:
        run_cells([cell], store, workers)
    assert store.finished(cell)
    assert store.history(cell).last["round"] < 500
    plain = Cell("early", replace(value, clock=Rounds()))
    with pytest.raises(FedsweError, match="measured with other settings"):
        store.finished(plain)


# targets -----------------------------------------------------------------------------------------------------
def test_rounds_and_seconds_to_a_target():
    rows = [
        {"round": t, "simulated_seconds": 100.0 * t, "server_test_accuracy": 0.1 * t, "server_test_loss": 2 - 0.2 * t}
        for t in range(0, 9, 2)
    ]
    history = History(rows)
    assert history.rounds_to("server_test_accuracy", 0.35) == 4
    assert history.seconds_to("server_test_accuracy", 0.35) == 400
    assert history.rounds_to("server_test_accuracy", 0.9) is None
    assert history.rounds_to("server_test_loss", 1.0) == 6
    assert history.rounds_to("server_test_accuracy", 0.0, lowest=True) == 0
    with pytest.raises(KeyError, match="did you mean server_test_loss"):
        history.rounds_to("server_test_los", 1.0)
    untimed = History([{"round": 0, "server_test_loss": 0.0}])
    assert untimed.rounds_to("server_test_loss", 1.0) == 0
    with pytest.raises(KeyError, match="simulated_seconds"):
        untimed.seconds_to("server_test_loss", 1.0)


# configuration -----------------------------------------------------------------------------------------------
def test_a_configuration_holds_the_clock():
    value = experiment(clock=replace(SLOW, min_reports=0.8, deadline=60, speed_file="x.csv"))
    assert load_text(dump(value), "dumped") == value


QUICK = ["rounds=12", "task.clients=10", "task.alpha=1", "clock.name=seconds", "clock.step_seconds=40",
         "clock.step_sigma=1", "availability.p=0.6"]  # fmt: skip


def test_the_command_line(monkeypatch, capsys):
    code, out, err = command(monkeypatch, capsys, "run", *QUICK, "--out", "run")
    assert (code, err) == (0, "")
    assert "simulated seconds; " in out
    assert " selected, " in out
    assert "of the clients' time wasted" in out
    code, out, _ = command(monkeypatch, capsys, "availability", "run", "--json")
    assert code == 0
    lasted = fedswe.load("run").history.last["simulated_seconds"]
    assert json.loads(out)["rounds"] == math.ceil(lasted / 600)  # of what the run saw


def test_comparisons_and_their_figures(monkeypatch, capsys):
    words = ["--algorithms", "fedswe:k=5,fedavg", "--seeds", "3,4", "--jobs", "1", "--out", "both", "--target", "0.2"]
    given = [*QUICK, "evaluate.every=1", "clock.limit=7000", "rounds=500"]
    code, out, err = command(monkeypatch, capsys, "compare", *given, *words)
    assert (code, err) == (0, "")
    found = fedswe.compare(load(None, given), ["fedswe:k=5", "fedavg"], seeds=[3, 4], out="both", jobs=1)
    longest = [int(history.last["round"]) for history in found.histories.values()]
    assert f"of {min(longest)} to {max(longest)} rounds" in " ".join(out.split())
    _, rounds, seconds = list(found.to_target(0.2)[0].values())[1:]
    histories = [history for (label, _, _), history in found.histories.items() if label == "fedswe:k=5"]
    assert rounds == [history.rounds_to("server_test_accuracy", 0.2) for history in histories]
    assert seconds == [history.seconds_to("server_test_accuracy", 0.2) for history in histories]
    assert "simulated seconds" in out
    assert f"{np.mean(rounds):.1f}" in out
    assert f"{np.mean(seconds):.0f}" in out
    code, out, _ = command(monkeypatch, capsys, "compare", *given, *words, "--json")
    assert json.loads(out)["to_target"][0]["simulated_seconds"] == seconds
    for x, label in (("simulated", "simulated"), ("bytes", "sent by all clients")):
        axis = plot("both", x=x).axes[0].get_xlabel()
        assert label in axis
        assert "estimated" not in axis


def test_a_run_without_simulated_time_cannot_be_drawn_over_it(monkeypatch, capsys):
    fedswe.run(experiment(clock=Rounds()), out="run")
    code, _, err = command(monkeypatch, capsys, "plot", "run", "--x", "simulated")
    assert code == 2
    assert 'the run has no simulated time (clock.name = "seconds"): use --x="rounds"' in err


def test_names_of_speeds_follow_the_devices_of_a_log():
    rows = [(f"phone-{k}", 0, 10_000) for k in range(20)]
    Path("speeds.csv").write_text("device,step_seconds\n" + "".join(f"phone-{k},{k + 1}\n" for k in range(20)))
    availability = Intervals.from_array(rows, round_seconds=100)
    clock = Seconds(speed_file="speeds.csv", download=0, upload=0, limit=5000)
    runs = [fedswe.run(experiment(availability=availability, clock=clock, seed=seed)) for seed in (3, 4)]
    slowest = [run.history["simulated_seconds"][-1] / run.history["round"][-1] for run in runs]
    for run, seconds in zip(runs, slowest, strict=True):  # two steps of the slowest device that the seed drew
        assert seconds in {2.0 * (k + 1) for k in range(20)}
        assert run.history.last["wasted_seconds"] == 0
