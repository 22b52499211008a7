"""fedswe availability: traces, models and runs are described; the published numbers of three traces come out."""

import json
import os
import pickle
import shlex
from bisect import bisect_right
from pathlib import Path

import numpy as np
import pytest

from fedswe.analysis.description import describe, of_table
from fedswe.availability import Intervals
from fedswe.availability.model import Population
from tests.cli.command import fedswe

TRACES = Path(os.environ.get("FEDSWE_TRACES", "../shared/traces"))
# Mean availability, never available, P(A | A), P(A | not A) in rounds of ten minutes; mean and quantiles of the echo.
PUBLISHED = {
    "flash300_charging": (0.161, 3, 0.929, 0.014, 4.6, 10, 97, 793),
    "flash300_chg_or_batt50": (0.509, 2, 0.985, 0.016, None, None, None, None),
    "fedscale300_48h": (0.179, 0, 0.834, 0.035, 4.5, 27, 63, 265),
}


@pytest.fixture
def described(monkeypatch, capsys):
    def run(*words):
        code, out, err = fedswe(monkeypatch, capsys, "availability", *words, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_numbers_of_public_traces(name, described):
    file = TRACES / f"{name}.csv"
    if not file.is_file():
        pytest.skip(f"{file} is not there: set FEDSWE_TRACES to a folder with the traces")
    found = described(file)
    echo = found["echo"]
    measured = (
        round(found["mean_availability"], 3),
        found["never_available"],
        round(found["stays"], 3),
        round(found["returns"], 3),
        round(echo["mean"], 1),
        echo["p95"],
        echo["p99"],
        echo["max"],
    )
    for ours, published in zip(measured, PUBLISHED[name], strict=True):
        assert published is None or ours == pytest.approx(published, abs=1.1e-3)


def device(rng, length=100_000):
    edges = np.sort(rng.choice(length, 20, replace=False)).tolist()
    return {"active": edges[::2], "inactive": edges[1::2], "finish_time": length, "duration": 1, "model": "x"}


def test_a_pickle_gives_who_is_there_at_every_round(tmp_path, monkeypatch, capsys):
    """FedScale's own look-up moves one interval per question and loses its place; a search does not."""
    rng = np.random.default_rng(1)
    devices = {i: device(rng) for i in range(5)}
    (tmp_path / "trace").write_bytes(pickle.dumps(devices))
    model = Intervals(str(tmp_path / "trace"), round_seconds=700, mapping="first")
    schedule = model.schedule(Population(5), 0)
    for t in rng.permutation(model.rounds()).tolist():
        for i, there in enumerate(schedule.sample(t)):
            k = bisect_right(devices[i]["active"], 700 * t) - 1
            assert there == (k >= 0 and 700 * t < devices[i]["inactive"][k])
    out = tmp_path / "log.csv"
    code, text, _ = fedswe(monkeypatch, capsys, "availability", tmp_path / "trace", "--convert", out)
    assert (code, "5 devices, 50 intervals" in text) == (0, True)
    again = Intervals(str(out), round_seconds=700, mapping="first", observed_file=str(tmp_path / "log.observed.csv"))
    assert all((again.schedule(Population(5), 0).sample(t) == schedule.sample(t)).all() for t in range(50))


def test_a_model_a_mask_and_a_run_are_described(tmp_path, monkeypatch, capsys, described):
    stationary = described("stationary", "availability.p=[0.5,0.5,0.5,0.1]", "--horizon", 4000)
    assert stationary["mean_availability"] == pytest.approx(0.4, abs=0.02)
    assert stationary["stays"] - stationary["returns"] > 0.05  # though rounds are independent: shares differ
    assert stationary["autocorrelation"]["1"] == pytest.approx(0, abs=0.03)
    assert [one["assumption"] for one in stationary["violations"]] == ["clients are available equally often"]
    markov = described("markov", "availability.p=[0.5,0.5]", "availability.on=0.05", "--horizon", 4000)
    assert "rounds are independent, with constant probabilities" in [v["assumption"] for v in markov["violations"]]
    mask = tmp_path / "mask.csv"
    mask.write_text("1,0,1\n0,0,1\n")
    assert described(mask)["never_available"] == 1
    assert fedswe(monkeypatch, capsys, "run", "rounds=3", "task.clients=5", "-q", "--out", tmp_path / "run")[0] == 0
    assert described(tmp_path / "run")["clients"] == 5


@pytest.mark.filterwarnings("ignore:.*1 of 31 clients are never available")
def test_the_answer_comes_first_and_its_command_runs(tmp_path, monkeypatch, capsys):
    log = tmp_path / "a log.csv"
    rows = [f"{i},{start},{start + 900}" for i in range(30) for start in range(0, 100_000, 9000 + 500 * i)]
    log.write_text("client,start,end\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    code, text, err = fedswe(monkeypatch, capsys, "availability", log, "--devices", 31)
    assert (code, err) == (0, "")
    answer = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert list(answer) == ["devices", "unequal", "related", "FedAvg", "rule", "evidence", "try", "check", "page"]
    assert "if the log is padded there" in answer["check"]
    assert Path("a log-devices.html").is_file()
    short = ["rounds=2", "task.alpha=1", "--seeds", "3", "--jobs", "1", "--tune", "", "--out", tmp_path / "compared"]
    assert fedswe(monkeypatch, capsys, *shlex.split(answer["try"])[1:], *short)[0] == 0
    assert fedswe(monkeypatch, capsys, "availability", log, "--out", "page.txt")[0] == 2


def assumptions(found):
    return {one["assumption"] for one in found["violations"]}


DYNAMICS = {
    "stationary": {"clients are available equally often"},
    "sine": {"clients are available equally often", "probabilities do not change over time"},
    "staircase": {"clients are available equally often", "probabilities do not change over time"},
    "alternating": {"clients are available equally often", "probabilities do not change over time"},
    "cyclic": {"clients are available equally often", "probabilities do not change over time"},
    "markov": {"clients are available equally often", "rounds are independent, with constant probabilities"},
}


@pytest.mark.parametrize("name", DYNAMICS)
def test_the_dynamics_of_the_paper_violate_what_they_do(name, described):
    """Draws of the paper's models are independent given their probabilities, as FedSWE's analysis allows."""
    assert assumptions(described(name, "task.clients=60", "--horizon", 1500)) == DYNAMICS[name]


@pytest.mark.parametrize(
    ("m", "rounds", "p"), [(2, 500, 0.5), (10, 50, 0.5), (3, 20, 0.5), (20, 200, 0.2), (60, 300, 0.1)]
)
def test_noise_violates_nothing(m, rounds, p):
    rng = np.random.default_rng(0)
    for _ in range(20):
        found = describe(of_table("noise", rng.random((rounds, m)) < p)).values
        assert assumptions(found) <= {"every client is available now and then"}


def test_turns_of_two_clients_are_not_independent_rounds():
    turns = np.arange(40)[:, None] % 2 == np.arange(2)
    assert "rounds are independent, with constant probabilities" in assumptions(
        describe(of_table("turns", turns)).values
    )


def test_a_night_is_told_from_a_day(tmp_path, described):
    rng = np.random.default_rng(0)
    hour = 3600
    for name, hours in (("night", range(6)), ("any", range(24))):
        rows = [
            f"{i},{(24 * day + h) * hour},{(24 * day + h) * hour + 1800}"
            for i in range(20)
            for day in range(5)
            for h in hours
            if rng.random() < 0.5
        ]
        (tmp_path / f"{name}.csv").write_text("client,start,end\n" + "\n".join(rows) + "\n")
    daily = "availability does not depend on the time of day"
    assert daily in assumptions(described(tmp_path / "night.csv"))
    assert daily not in assumptions(described(tmp_path / "any.csv"))


def test_an_observation_holds_in_a_run_that_is_shorter_than_the_log(tmp_path, described):
    log, seen = tmp_path / "log.csv", tmp_path / "seen.csv"
    log.write_text("client,start,end\n0,0,6000\n1,30000,36000\n0,54000,60000\n")
    seen.write_text("client,start,end\n0,0,6000\n0,54000,60000\n1,30000,36000\n")
    words = [f"availability.file={log}", f"availability.observed_file={seen}", "availability.mapping=first"]
    found = described("intervals", *words, "task.clients=2", "--horizon", 70)
    assert found["mean_availability"] == 1.0
    whole = described(log, "--observed", seen)
    assert whole["outages"]["number"] == 0  # it was not observed in between
    assert [w["delta"] for w in whole["windows"]][-1] is None  # no client was observed in half of all rounds
