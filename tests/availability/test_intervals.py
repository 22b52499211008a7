"""Clients with the devices of a log: the rounds of each by definition, the mapping, real traces."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fedswe
from fedswe.availability import Intervals
from fedswe.availability.model import Population
from fedswe.engine.base import availability_of
from fedswe.errors import FedsweError, FedsweWarning
from fedswe.experiment.configuration import load
from fedswe.tasks import Quadratic
from tests.cli.command import fedswe as command

ROWS = [(7, 0, 25), (3, 5, 20), (7, 30, 60), (9, 10, 60), (3, 40, 45)]


def mask(m=3, rows=ROWS, rounds=None, seed=0, **keys):
    model = Intervals.from_array(rows, **{"round_seconds": 10, "mapping": "first", **keys})
    schedule = model.schedule(Population(m), seed)
    return availability_of(schedule, rounds or schedule.rounds).astype(int).tolist()


def test_a_client_is_available_if_it_is_online_at_the_start_of_the_round():
    assert mask() == [[1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 0, 1], [1, 1, 1], [1, 0, 1]]


def test_or_in_the_whole_round():
    assert mask(during="whole") == [[1, 0, 0], [1, 1, 1], [0, 0, 1], [1, 0, 1], [1, 0, 1], [1, 0, 1]]


def test_rounds_begin_where_the_user_says_and_end_where_the_log_ends():
    assert mask(start=10, end=49) == mask()[1:4]
    assert mask(start=-20) == [[0, 0, 0]] * 2 + mask()
    assert Intervals.from_array(ROWS, round_seconds=7).rounds() == 8


def test_a_log_is_repeated_after_its_last_whole_round():
    assert mask(wrap=True, rounds=15) == (mask() * 3)[:15]
    assert Intervals.from_array(ROWS, wrap=True).rounds() is None


def test_beyond_the_end_of_the_log_the_number_of_its_rounds_is_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "log.csv").write_text("client,start,end\n" + "\n".join("{},{},{}".format(*row) for row in ROWS))
    words = ["availability.name=intervals", f"availability.file={tmp_path}/log.csv", "availability.round_seconds=10"]
    words += ["task.name=quadratic", "availability.mapping=first"]
    assert load(None, words).rounds == 6  # by default a run has the rounds of the log
    code, _, err = command(monkeypatch, capsys, "run", *words, "rounds=7", "--out", tmp_path / "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "the availability has 6 rounds but rounds = 7" in err
    assert "availability.wrap=true" in err
    assert not (tmp_path / "run").exists()
    words += ["rounds=7", "availability.wrap=true", "--out", tmp_path / "run"]
    assert command(monkeypatch, capsys, "run", *words)[0] == 0


def test_timestamps_need_no_quotes_on_the_command_line(tmp_path):
    (tmp_path / "log.csv").write_text("id,start,end\n1,2026-01-01T00:00:00Z,2026-01-01T01:00:00Z\n")
    words = ["availability.name=intervals", f"availability.file={tmp_path}/log.csv"]
    assert load(None, [*words, "availability.start=2026-01-01T00:30:00Z"]).rounds == 3
    assert load(None, [*words, "availability.start='2026-01-01T01:50:00+01:00'"]).rounds == 1


spans = st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 25)).map(lambda s: (s[0], s[1], s[1] + s[2]))


@pytest.mark.filterwarnings("ignore::fedswe.errors.FedsweWarning")
@given(
    st.lists(spans, min_size=1, max_size=20).filter(lambda rows: max(r[2] for r in rows) >= 8),
    st.sampled_from([1.0, 2.5, 0.1, 7.0]),
    st.sampled_from(["start", "whole"]),
    st.randoms(use_true_random=False),
)
def test_every_round_of_every_client_is_by_definition(rows, length, during, random):
    own = [sorted((a, b) for device, a, b in rows if device == c) for c in range(4)]

    def available(c, t):
        online = any(a <= t * length < b for a, b in own[c])
        until = t * length
        for a, b in own[c]:
            until = max(until, b) if a <= until else until
        return online and (during == "start" or until >= (t + 1) * length)

    model = Intervals.from_array(rows, round_seconds=length, start=0, during=during, mapping="id", wrap=True)
    n = replace(model, wrap=False).rounds()
    assert n * length <= max(b for _, _, b in rows) < (n + 1) * length
    expected = np.array([[available(c, t) for c in range(4)] for t in range(n)])
    assume(expected.any())
    schedule = model.schedule(Population(4), 0)
    for t in random.sample(range(2 * n), min(2 * n, 40)):  # in any order, also beyond the end
        np.testing.assert_array_equal(schedule.sample(t), expected[t % n])
    first, after = sorted(random.sample(range(n + 1), 2))
    np.testing.assert_array_equal(schedule.available_rounds(first, after), expected[first:after].sum(0))


# the devices of the clients ------------------------------------------------------------------------------
ALWAYS = [(f"d{k}", 0, 100) for k in range(20)]
KNOWN = [(k, 0, 10 * (k + 1)) for k in range(20)]  # device k is online in the first k + 1 rounds


def counts(seed, m=8, **keys):
    return np.sum(mask(m, KNOWN, seed=seed, mapping=keys.pop("mapping", "sample"), **keys), axis=0).tolist()


def test_clients_are_given_a_sample_of_the_devices_by_the_seed():
    drawn = [counts(seed) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 8  # without replacement
    picked = np.bincount(np.concatenate([counts(seed) for seed in range(300)]), minlength=21)
    assert picked[1:].min() > 80  # each of 20 devices in about 120 of 300 samples of 8
    assert picked[1:].max() < 165


def test_or_the_first_devices_of_the_log():
    assert counts(3, mapping="first") == counts(4, mapping="first") == [1, 2, 3, 4, 5, 6, 7, 8]


def test_more_clients_than_devices_only_on_request():
    with pytest.raises(FedsweError, match=r'20 devices for 30 clients.*mapping = "with_replacement"'):
        counts(3, m=30)
    many = counts(3, m=30, mapping="with_replacement")
    assert len(many) == 30 > len(set(many))


def test_the_device_with_the_id_of_the_client():
    rows = [(2, 0, 10), (0, 10, 20)]
    with pytest.warns(FedsweWarning, match="1 of 3 clients are never available in the 2 rounds"):
        assert mask(3, rows, mapping="id") == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises(FedsweError, match="has ids from 0 to 2, the 2 clients have 0 to 1"):
        mask(2, rows, mapping="id")


def test_the_device_with_the_name_of_the_client():
    rows = [("geneva", 0, 10), ("bern", 10, 20), ("basel", 0, 20)]
    with pytest.warns(FedsweWarning, match="0 is basel, 1 is bern, 2 is geneva"):
        assert mask(3, rows, mapping="id") == [[1, 0, 1], [1, 1, 0]]
    assert mask(2, rows, mapping=["geneva", "bern"]) == [[1, 0], [0, 1]]
    for m, mapping in ((2, "id"), (3, ["bern", "geneva"]), (2, ["bern", "bern"]), (2, ["bern", "genf"])):
        with pytest.raises(FedsweError, match=r"availability\.mapping"):
            mask(m, rows, mapping=mapping)


def test_devices_that_were_never_online_belong_to_the_population():
    with pytest.warns(FedsweWarning, match="of 40 clients are never available"):
        everyone = np.array(mask(40, ALWAYS, mapping="sample", devices=40))
    assert everyone[0].sum() == 20
    with pytest.raises(FedsweError, match=r"devices = 5, but .* names 20 devices"):
        mask(3, ALWAYS, devices=5)


# probabilities -------------------------------------------------------------------------------------------
def test_estimates_of_a_repeated_log():
    model = Intervals.from_array(ROWS, round_seconds=10, mapping="first", wrap=True, prob="estimate", prob_window=3)
    with pytest.warns(FedsweWarning, match="estimates"):
        schedule = model.schedule(Population(3), 0)
    rounds = np.array(mask())
    np.testing.assert_allclose(schedule.prob(0), (rounds[:2].sum(0) + 1) / 4)
    np.testing.assert_allclose(schedule.prob(6 + 3), (rounds[2:5].sum(0) + 1) / 5)


def test_without_them_probabilities_are_not_known():
    assert np.isnan(Intervals.from_array(ROWS, round_seconds=10).schedule(Population(3), 0).prob(0)).all()


# mistakes ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"round_seconds": 0}, "round_seconds must be"),
        ({"round_seconds": 100}, "are 60 s, less than a round of 100 s"),
        ({"round_seconds": 1e-9}, "has over 1e9 rounds"),
        ({"start": 70}, "are -10 s, less than a round"),
        ({"start": float("nan")}, "availability.start must be a number of seconds"),
        ({"start": "2026-01-01T00:00:00Z"}, "availability.start must be a number of seconds"),
        ({"end": 99}, "availability.end is after the last end"),
        ({"prob_window": 5}, 'prob_window is for prob = "estimate"'),
    ],
)
def test_keys_that_do_not_fit(keys, message):
    with pytest.raises(FedsweError, match=message):
        mask(**keys)


def test_a_log_in_which_nobody_is_ever_available_is_refused():
    with pytest.raises(FedsweError, match="no client is available in any of the 9 rounds"):
        mask(2, [(1, 3, 8), (2, 93, 98)], start=0)


def test_files():
    with pytest.raises(FedsweError, match=r"availability\.file is missing"):
        Intervals()
    with pytest.raises(FedsweError, match=r"there is no file none\.csv"):
        Intervals("none.csv").rounds()
    with pytest.raises(FedsweError, match=r"use Intervals\.from_array"):
        Intervals(np.array(ROWS))


def test_runs_of_a_log_are_the_same_in_both_engines():
    log = [(device, start, start + 55) for device in range(5) for start in range(0, 500, 90 + device)]
    part, task = Intervals.from_array(log, round_seconds=30), Quadratic(centers=np.eye(4).tolist())
    last = {}
    for engine in ("loop", "batched"):
        e = fedswe.Experiment(rounds=10, availability=part, task=task, engine=engine)
        fedswe.run(e, watch=lambda t, row, engine=engine: last.update({engine: row}))
    assert last["loop"]["available"] == last["batched"]["available"]
    assert last["loop"]["server_train_loss"] == pytest.approx(last["batched"]["server_train_loss"], rel=1e-5)


def test_the_example_runs(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "own_devices.py"
    done = subprocess.run([sys.executable, example, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("test accuracy 0.") == 4  # two algorithms, two models
    assert len(example.read_text().splitlines()) < 40


def test_a_row_without_a_device_is_named(tmp_path):
    (tmp_path / "log.csv").write_text("device,start,end\na,0,600\n,0,600\n")
    with pytest.raises(FedsweError, match=r"the client \(line 3\) is empty"):
        Intervals(str(tmp_path / "log.csv")).rounds()


def test_milliseconds_are_noticed():
    with pytest.warns(FedsweWarning, match="look like milliseconds"):
        log = Intervals.from_array([(1, 1.7e12, 1.7e12 + 6e5)], round_seconds=600)
    assert log.rounds() == 1000
