"""The clients and the availability that an analysis is about are those of a run."""

import numpy as np
import pytest

from fedswe.analysis.scenario import scenario
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import assemble
from fedswe.registry import names

TWO = ["stationary", "availability.p=[0.1,0.9]"]
DIGITS = ["task.clients=6", "task.alpha=1"]


@pytest.mark.parametrize("name", [n for n in names("availability") if n not in ("mask", "intervals")])
def test_the_clients_are_those_of_a_run(name):
    value = load(None, [f"availability.name={name}", *DIGITS, "rounds=60"])
    run, here = assemble(value).schedule, scenario(value, name, 60, True)
    for t in (0, 7, 59):
        np.testing.assert_array_equal(run.sample(t), here.trace[t])
        np.testing.assert_allclose(run.prob(t), here.prob[t], rtol=0, atol=1e-12)  # a sine's last digit


def test_the_released_codes_stream_as_well():
    value = load(None, ["availability.stream=legacy", *DIGITS, "rounds=5"])
    np.testing.assert_array_equal(
        np.stack([assemble(value).schedule.sample(t) for t in range(5)]), scenario(value, "sine", None, True).trace
    )


def test_a_name_a_file_and_overrides_mean_the_same(values, tmp_path):
    (tmp_path / "a.toml").write_text(
        'rounds = 40\n[availability]\nname = "staircase"\nlow = 0.3\n[task]\nclients = 6\nalpha = 1\n'
    )
    answers = [
        values("assumption", tmp_path / "a.toml"),
        values("assumption", "staircase", "availability.low=0.3", *DIGITS, "rounds=40"),
        values("assumption", "availability.name=staircase", "availability.low=0.3", *DIGITS, "--horizon", 40),
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["clients"] == 6
    assert values("assumption", tmp_path / "a.toml", "cyclic")["availability"] == "cyclic"


def test_the_clients_of_a_file_are_counted_below_its_comment(values, tmp_path):
    (tmp_path / "mask.csv").write_text("# who was there\n\n" + "1,0,1\n0,1,1\n" * 3)
    assert values("staleness", "mask", f"availability.file={tmp_path}/mask.csv")["clients"] == 3


def test_an_availability_that_lists_clients_needs_no_task(values, mask):
    assert values("assumption", *TWO)["clients"] == 2
    assert values("staleness", *mask[0])["clients"] == 3
    assert values("assumption", "always")["clients"] == 50  # of the default task


def test_the_window_is_the_period_or_how_long_chains_stay_off(values):
    periodic = scenario(load(None, ["availability.name=sine", "availability.p=0.7", *DIGITS]), "sine", 60, True)
    assert periodic.window(None) == 20
    np.testing.assert_array_equal(periodic.prob[:20], periodic.prob[40:])  # to the last digit: one window, not three
    chains = ["markov", "availability.p=[0.5,0.5]", "availability.on=0.1"]
    assert values("mixing", *chains, "--k", "1", "--draws", 20)["period"] == 10


@pytest.mark.parametrize(
    ("name", "basis"),
    [("daily_markov", "trace"), ("outages", "trace"), ("markov", "chains"), ("adversarial", "probabilities")],
)
def test_one_draw_is_analysed_where_rounds_or_clients_depend_on_each_other(name, basis, values):
    found = values("staleness", name, *DIGITS, "--horizon", 400)
    assert found["basis"] == basis
