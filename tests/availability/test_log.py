"""Logs with observed times: what lies outside is cut off, and what does not fit is refused."""

import numpy as np
import pytest

from fedswe.availability.log import read_log
from fedswe.errors import FedsweError, FedsweWarning
from tests.availability.test_interval_log import devices
from tests.availability.test_traces import written


def test_what_lies_outside_of_the_observed_times_is_cut_off(tmp_path):
    log = written(tmp_path, "log.csv", "client,start,end\n1,0,10\n1,20,60\n2,5,9\n")
    seen = written(tmp_path, "seen.csv", "client,start,end\n3,0,50\n2,0,50\n1,5,30\n1,40,50\n")
    with pytest.warns(FedsweWarning, match=r"25 s of availability lie outside"):
        found = read_log(log, seen)
    assert found.labels.tolist() == [3, 2, 1]
    assert devices(found) == [[], [(5, 9)], [(5, 10), (20, 30), (40, 50)]]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ("1,0,50", "lacks 1 devices of .* first 2"),
        ("a,0,50\nb,0,50", "ids must be of the kind"),
        ("1,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z\n2,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z", "times must be"),
    ],
)
def test_an_observation_that_does_not_fit_is_one_line(tmp_path, seen, words):
    log = written(tmp_path, "log.csv", "client,start,end\n1,0,10\n2,5,9\n")
    with pytest.raises(FedsweError, match=words):
        read_log(log, written(tmp_path, "seen.csv", "client,start,end\n" + seen))


def test_many_intervals_and_observations_are_matched(tmp_path):
    rng = np.random.default_rng(0)
    edges = np.sort(rng.choice(10**6, 40_000, replace=False))
    seen = edges.reshape(-1, 2)
    inside = seen[:, 0] + (seen[:, 1] - seen[:, 0]) // 2
    log = "".join(f"1,{a},{b}\n" for a, b in zip(inside.tolist(), seen[:, 1].tolist(), strict=True))
    found = read_log(
        written(tmp_path, "log.csv", "client,start,end\n" + log),
        written(tmp_path, "seen.csv", "client,start,end\n" + "".join(f"1,{a},{b}\n" for a, b in seen.tolist())),
    )
    assert found.start.tolist() == inside.tolist()
    window = found.window
    assert window.tolist() == list(range(len(seen)))
