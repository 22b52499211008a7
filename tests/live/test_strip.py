"""Who reported in which round, in bins and groups."""

import base64

import numpy as np

from fedswe.live.strip import BINS, GROUPS, RecordedStrip, Strip
from fedswe.results.lines import Lines
from fedswe.results.reported import FILE, ReportedLines

EVERYTHING = (-1, 0)


def shares(message):
    return np.array([list(base64.b64decode(text)) for text in message["bins"]])


def test_few_rounds_and_clients_are_shown_one_by_one():
    rng = np.random.default_rng(1)
    mask = rng.random((30, 7)) < 0.5
    strip = Strip()
    strip.clear(7)
    for row in mask[:20]:
        strip.add(row)
    message = strip.since(EVERYTHING)
    assert (shares(message) == 100 * mask[:20]).all()
    assert message["missed"] == (20 - mask[:20].sum(0)).tolist()
    seen = strip.position
    for row in mask[20:]:
        strip.add(row)
    later = strip.since(seen)
    assert not later["new"]
    joined = np.vstack([shares(message)[: later["first"]], shares(later)])
    assert (joined == 100 * mask).all()


def test_many_rounds_and_clients_are_joined_without_losing_any():
    rng = np.random.default_rng(2)
    m, rounds = 3 * GROUPS, 5 * BINS + 3
    mask = rng.random((rounds, m)) < 0.3
    strip = Strip()
    strip.clear(m)
    for row in mask:
        strip.add(row)
    message = strip.since(EVERYTHING)
    found = shares(message)
    assert found.shape[0] <= BINS
    assert found.shape[1] == GROUPS
    width = message["width"]
    assert found[0, 0] == round(100 * mask[:width, :3].mean())
    assert message["missed"][1] == np.round(rounds - mask[:, 3:6].sum() / 3, 1)


def test_the_record_of_a_run_is_followed_also_when_it_was_cut_back(tmp_path):
    strip = RecordedStrip(tmp_path / FILE)
    strip.look()
    assert strip.m == 0
    lines = ReportedLines(Lines(tmp_path / FILE, 0))
    lines._lines.append("clients 3\n")
    for t in range(6):
        lines.add(np.arange(3) == t % 3)
    lines.write()
    lines.close()
    strip.look()
    assert (strip.m, strip.rounds) == (3, 6)
    again = ReportedLines.open(tmp_path, 3, 4)
    again.add(np.ones(3, bool))
    again.write()
    again.close()
    seen = strip.position
    strip.look()
    message = strip.since(seen)
    assert message["new"]
    assert (strip.rounds, message["missed"]) == (5, [2, 3, 3])


def test_a_damaged_record_is_left_out(tmp_path):
    (tmp_path / FILE).write_text("clients 9999999\nzz\nff\n")
    strip = RecordedStrip(tmp_path / FILE)
    strip.look()
    assert (strip.m, strip.rounds) == (0, 0)


def test_a_run_without_a_record_gives_no_news(tmp_path):
    strip = RecordedStrip(tmp_path / FILE)
    strip.look()
    seen = strip.position
    strip.look()
    assert strip.position == seen
