"""Rounds in seconds against a simulation that goes from second to second."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedswe.availability import Intervals
from fedswe.availability.mask import Rows
from fedswe.availability.model import Population
from fedswe.availability.sessions import sessions_of
from fedswe.clock.model import Work
from fedswe.clock.seconds import Seconds, Timed
from fedswe.clock.speeds import Speeds
from fedswe.errors import FedsweError

BYTES = 12  # of download and upload: with 12/k bytes per second they take k seconds


def timed(sessions, schedule, seconds, rules):
    """`seconds` are those of download, training and upload of each client."""
    down, train, up = (np.array(column, dtype=float) for column in zip(*seconds, strict=True))
    speed = [np.divide(BYTES, s, out=np.zeros(len(s)), where=s > 0) for s in (down, up)]
    return Timed(sessions, schedule, Speeds(train, *speed), Work(1, BYTES, BYTES, 0), rules)


def by_the_second(online, end, wrap, seconds, rules, rounds):
    """Everybody's work, one second after the other. Returns a row for each round: when it closed and who did what."""

    def there(i, x):
        if wrap:
            return online(i, x % end)
        return online(i, min(x, end - 1))  # a session that lasts to the end of the record goes on

    now, found = 0, []
    for _ in range(rounds):
        waited = 0
        while (wrap or now < end) and sum(there(i, now) for i in range(len(seconds))) < rules.min_clients:
            now, waited = now + 1, waited + 1
            if waited > end:
                return found
        if (not wrap and now >= end) or (rules.limit and now >= rules.limit):
            return found
        left_to_do = {i: list(seconds[i]) for i in range(len(seconds)) if there(i, now)}
        selected, x, fate, wasted, busy = list(left_to_do), now, {}, 0, 0
        while True:
            for i in [i for i, phases in left_to_do.items() if not any(phases)]:
                fate[i], busy = "reported", busy + x - now
                del left_to_do[i]
            for i in [i for i in left_to_do if not there(i, x)]:
                phase = next(k for k, rest in enumerate(left_to_do[i]) if rest)
                fate[i], wasted = ("before", "during", "after")[phase], wasted + x - now
                del left_to_do[i]
            reports = sum(f == "reported" for f in fate.values())
            wanted = rules.min_reports
            enough = math.ceil(wanted * len(selected)) if 0 < wanted < 1 else wanted or len(selected)
            closes = rules.early and (not left_to_do or reports >= enough > 0)
            if closes or (rules.deadline and x - now >= rules.deadline):
                break
            x += 1
            for phases in left_to_do.values():
                phases[next(k for k, rest in enumerate(phases) if rest)] -= 1
        for i in left_to_do:
            fate[i], wasted = "late", wasted + x - now
        found.append((x, {i: fate[i] for i in selected}, wasted, busy + wasted))
        now = x + int(rules.pause)
    return found


def assert_rounds(timeline, expected, rounds, m):
    counts = dict.fromkeys(("reported", "before", "during", "after", "late"), 0)
    wasted = worked = 0
    for t in range(rounds):
        if t == len(expected):
            assert timeline.over
            return
        assert not timeline.over
        closed, fate, lost, busy = expected[t]
        assert np.flatnonzero(timeline.available(t)).tolist() == list(fate)
        reporting = timeline.reporting(t, np.array(list(fate), dtype=np.int64), np.zeros(m, dtype=bool))
        timeline.advance()
        assert reporting.tolist() == [i for i, f in fate.items() if f == "reported"]
        for f in fate.values():
            counts[f] += 1
        wasted, worked = wasted + lost, worked + busy
        row = timeline.columns()
        assert row["simulated_seconds"] == closed
        assert [row[f"total_dropped_{w}"] for w in ("before", "during", "after")] == [
            counts[w] for w in ("before", "during", "after")
        ]
        assert (row["total_reported"], row["total_late"]) == (counts["reported"], counts["late"])
        assert row["total_selected"] == sum(counts.values())
        assert (row["wasted_seconds"], row["work_seconds"]) == (wasted, worked)


work = st.tuples(*[st.sampled_from([0, 1, 2, 3, 4, 6, 12])] * 3)


@st.composite
def rule(draw):
    early = draw(st.booleans())
    deadline = draw(st.sampled_from([0, 1, 5, 9])) if early else draw(st.sampled_from([1, 5, 9]))
    pause = draw(st.sampled_from([0, 1, 4]))
    return Seconds(
        deadline=deadline,
        min_clients=draw(st.integers(1 if early and not pause else 0, 3)),
        min_reports=draw(st.sampled_from([0, 1, 2, 0.25, 0.5, 0.9])) if early else 0,
        early=early,
        pause=pause,
        limit=draw(st.sampled_from([0, 0, 20])),
    )


def made(sessions, schedule, seconds, rules, expected):
    """The timeline; where no round can be opened, it is refused at once."""
    if not expected:
        with pytest.raises(FedsweError, match="no round can be opened"):
            timed(sessions, schedule, seconds, rules)
        return None
    return timed(sessions, schedule, seconds, rules)


spans = st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 25)).map(lambda s: (s[0], s[1], s[1] + s[2]))


@pytest.mark.filterwarnings("ignore::fedswe.errors.FedsweWarning")
@given(st.lists(spans, min_size=1, max_size=14), st.lists(work, min_size=4, max_size=4), rule(), st.booleans())
def test_on_a_log(rows, seconds, rules, wrap):
    end = max(b for _, _, b in rows)
    log = Intervals.from_array(rows, round_seconds=1, start=0, mapping="id", wrap=wrap)
    schedule = log.schedule(Population(4), 0)

    def online(i, x):
        return any(a <= x < b for device, a, b in rows if device == i)

    assume(not wrap or rules.min_clients or rules.pause or not rules.early)
    expected = by_the_second(online, end, wrap, seconds, rules, 25)
    timeline = made(sessions_of(schedule, 1.0), schedule, seconds, rules, expected)
    if timeline is not None:
        assert_rounds(timeline, expected, 25, 4)


@given(
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=14),
    st.lists(work, min_size=3, max_size=3),
    rule(),
    st.sampled_from([1, 3, 5]),
)
def test_on_slots(rows, seconds, rules, slot):
    mask = np.array(rows)
    schedule = Rows(mask, np.full((1, 3), np.nan))
    expected = by_the_second(lambda i, x: mask[x // slot, i], len(mask) * slot, False, seconds, rules, 25)
    timeline = made(sessions_of(schedule, float(slot)), schedule, seconds, rules, expected)
    if timeline is not None:
        assert_rounds(timeline, expected, 25, 3)


ALL = Seconds(deadline=0, min_clients=1, min_reports=0, early=True, pause=0, limit=0)


def one_client(until, seconds):
    schedule = Intervals.from_array([(0, 0, until), (1, 0, 100)], round_seconds=1, mapping="id").schedule(
        Population(2), 0
    )
    return timed(sessions_of(schedule, 1.0), schedule, [seconds, (0, 50, 0)], ALL)


@pytest.mark.parametrize(
    ("until", "column", "sent"),
    [
        (1, "total_dropped_before", 6),  # half of the download
        (2, "total_dropped_during", 12),
        (5, "total_dropped_during", 12),
        (6, "total_dropped_after", 12),
        (9, "total_dropped_after", 21),  # three quarters of the upload
        (10, "total_reported", 24),
    ],
)
def test_what_a_client_had_done_when_it_left(until, column, sent):
    timeline = one_client(until, (2, 4, 4))
    timeline.reporting(0, np.array([0]), np.zeros(2, dtype=bool))
    row = timeline.columns()
    counted = {name: value for name, value in row.items() if name.startswith("total") and value}
    assert counted == {"total_selected": 1, column: 1}
    assert row["bytes_sent"] == sent
    assert row["work_seconds"] == until
    assert row["wasted_seconds"] == (0 if until == 10 else until)


def test_a_share_of_the_selected_is_rounded_up():
    def needed(share, selected):
        return Seconds(0, 1, share, True, 0, 0).needed(selected)

    assert [needed(0.8, n) for n in (0, 1, 2, 4, 5, 10)] == [0, 1, 2, 4, 4, 8]
    assert needed(0.07, 100) == 7
    assert [needed(3, n) for n in (0, 2, 9)] == [0, 2, 3]
    assert [needed(0, n) for n in (0, 2)] == [0, 2]


def test_the_reply_to_the_last_report_comes_with_the_next_job():
    schedule = Rows(np.ones((1, 2), dtype=bool), np.ones((1, 2)))
    speeds = Speeds(np.zeros(2), np.full(2, 10.0), np.zeros(2))
    timeline = Timed(sessions_of(schedule, 1e6), schedule, speeds, Work(1, 0, 5, 100), ALL)
    both = np.arange(2)
    timeline.reporting(0, both, np.array([False, False]))
    assert (timeline.columns()["simulated_seconds"], timeline.columns()["bytes_sent"]) == (0, 10)
    timeline.advance()
    timeline.reporting(1, both, np.array([False, True]))
    assert (timeline.columns()["simulated_seconds"], timeline.columns()["bytes_sent"]) == (10, 120)


@pytest.mark.filterwarnings("ignore::fedswe.errors.FedsweWarning")
def test_laps_that_are_not_exact_in_binary_lose_nobody():
    """A lap of 0.3 s begins at 0.8999999999999999: the client that is there from its beginning on is found there."""
    log = Intervals.from_array([(0, 0.0, 0.1), (1, 0.05, 0.3)], round_seconds=0.3, start=0, mapping="id", wrap=True)
    sessions = sessions_of(log.schedule(Population(2), 0), 1.0)
    now = 0.0
    for _ in range(200):
        now = sessions.opening(now, 2)
        until = sessions.until(now, now, np.arange(2))
        assert (until > now).all()
        assert until.max() - now < 0.31
        now = float(until.max())
    assert now == pytest.approx(0.3 * 200, abs=0.3)


def test_an_endless_wait_has_an_end():
    class Never:
        m, rounds = 2, None

        def prob(self, t):
            return np.zeros(2)

        def sample(self, t):
            return np.zeros(2, dtype=bool)

    with pytest.raises(FedsweError, match=r"no round can be opened: .*fewer than clock.min_clients = 1 clients"):
        timed(sessions_of(Never(), 1.0), Never(), [(1, 1, 1)] * 2, ALL)
    always = Rows(np.ones((1, 2), dtype=bool), np.ones((1, 2)))
    always.rounds = None
    with pytest.raises(FedsweError, match=r"a round of 1e\+06 s has 1e\+09 slots.*raise clock.slot_seconds"):
        timed(sessions_of(always, 1e-3), always, [(1, 1e6, 1)] * 2, ALL)
    with pytest.raises(FedsweError, match=r"a client would need 1e\+10 s for one round"):
        timed(sessions_of(always, 1.0), always, [(1, 1e10, 1)] * 2, ALL)
