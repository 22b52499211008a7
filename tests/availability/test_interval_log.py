"""Interval logs as people have them: names, separators, timestamps, data frames; any order, overlaps merged."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedswe.availability.log import log_of, read_log
from fedswe.errors import FedsweError, FedsweWarning

ROWS = [(7, 0, 25), (3, 5, 20), (7, 30, 60), (9, 10, 60), (3, 40, 45)]
DEVICES = [[(0, 25), (30, 60)], [(5, 20), (40, 45)], [(10, 60)]]  # in the order in which the rows name them
BEGIN = datetime(2026, 1, 31, 23, 59, 30, tzinfo=UTC)
KOLKATA = timezone(timedelta(hours=5, minutes=30))


def lines(rows, separator=",", header="client,start,end"):
    text = "\n".join(separator.join(map(str, row)) for row in rows) + "\n"
    return f"{header.replace(',', separator)}\n{text}" if header else text


def at(second, zone=UTC):
    return (BEGIN + timedelta(seconds=second)).astimezone(zone)


def devices(log, begin=0.0):
    spans = [slice(*log.offset[k : k + 2]) for k in range(log.devices)]
    return [list(zip(log.start[s] - begin, log.end[s] - begin, strict=True)) for s in spans]


def dated(convert, zone=UTC):
    return [(c, convert(at(a)), convert(at(b, zone))) for c, a, b in ROWS]


TEXTS = {
    "plain": lines(ROWS),
    "other names": lines(ROWS, ";", header="Device,Begin,Stop"),
    "tabs": lines(ROWS, "\t"),
    "spaces": lines(ROWS, "  "),
    "comment and byte order mark": "\ufeff# who\n\n" + lines(ROWS),
    "more columns, other order": lines([(b, "Größe 设", a, c) for c, a, b in ROWS], header="end,model,start,id"),
    "texts as ids": lines([(f"phone#{c}", a, b) for c, a, b in ROWS]),
    "large ids": lines([(2**62 + c, a, b) for c, a, b in ROWS]),
    "quotes": lines([(f'"a,{c}"', a, b) for c, a, b in ROWS]),
}
DATED = {
    "zones": lines(dated(datetime.isoformat, KOLKATA)),
    "Z": lines(dated(lambda t: t.strftime("%Y-%m-%d %H:%M:%SZ"))),
    "fractions": lines(dated(lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.000+0000"))),
    "basic format": lines(dated(lambda t: t.strftime("%Y%m%dT%H%M%SZ"))),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts(case, tmp_path):
    (tmp_path / "log.csv").write_text(TEXTS[case], encoding="utf-8")
    log = read_log(str(tmp_path / "log.csv"))
    assert devices(log) == DEVICES
    assert not log.dated


@pytest.mark.parametrize("case", DATED)
def test_timestamps(case, tmp_path):
    (tmp_path / "log.csv").write_text(DATED[case])
    log = read_log(str(tmp_path / "log.csv"))
    assert devices(log, BEGIN.timestamp()) == DEVICES
    assert log.dated


def test_timestamps_without_a_zone_are_utc_and_a_warning_says_so(tmp_path):
    (tmp_path / "log.csv").write_text(lines(dated(lambda t: t.strftime("%Y-%m-%dT%H:%M:%S"))))
    with pytest.warns(FedsweWarning, match="without a zone are taken as UTC") as caught:
        log = read_log(str(tmp_path / "log.csv"))
    assert len(caught) == 1
    assert devices(log, BEGIN.timestamp()) == DEVICES


def test_a_file_that_changes_is_read_again(tmp_path):
    (tmp_path / "log.csv").write_text(lines(ROWS))
    assert read_log(str(tmp_path / "log.csv")).devices == 3
    (tmp_path / "log.csv").write_text(lines(ROWS[:2]))
    assert read_log(str(tmp_path / "log.csv")).devices == 2


COLUMNS = dict(zip(("client", "start", "end"), map(list, zip(*ROWS, strict=True)), strict=True))
MEMORY = {
    "rows": ROWS,
    "array": np.array(ROWS),
    "columns": COLUMNS,
    "structured": np.array(ROWS, dtype=[("id", "i8"), ("begin", "f8"), ("stop", "f8")]),
}


@pytest.mark.parametrize("case", MEMORY)
def test_memory(case):
    assert devices(log_of(MEMORY[case], "log")) == DEVICES


@pytest.mark.parametrize("convert", [lambda t: t, datetime.isoformat, lambda t: np.datetime64(t.replace(tzinfo=None))])
def test_times_in_memory(convert):
    log = log_of(dated(convert), "log")
    assert devices(log, BEGIN.timestamp()) == DEVICES


def test_data_frames_and_parquet(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(COLUMNS)
    assert devices(log_of(frame, "log")) == DEVICES
    times = pandas.DataFrame(
        {"device": frame.client, **{k: [at(s, KOLKATA) for s in frame[k]] for k in ("start", "end")}}
    )
    assert devices(log_of(times, "log"), BEGIN.timestamp()) == DEVICES
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    times.set_index("device").to_parquet(tmp_path / "log.parquet")
    assert devices(read_log(str(tmp_path / "log.parquet")), BEGIN.timestamp()) == DEVICES


# order and overlaps --------------------------------------------------------------------------------------
spans = st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 12)).map(lambda s: (s[0], s[1], s[1] + s[2]))


@pytest.mark.filterwarnings("ignore:.*were merged:fedswe.errors.FedsweWarning")
@given(st.lists(spans, min_size=1, max_size=25), st.sampled_from([int, "name {}".format]))
def test_intervals_are_sorted_and_merged_whatever_their_order(rows, name):
    log = log_of([(name(c), a, b) for c, a, b in rows], "log")
    order = list(dict.fromkeys(c for c, _, _ in rows))
    assert log.devices == len(order)
    for device, found in zip(order, devices(log), strict=True):
        online = {s for c, a, b in rows if c == device for s in range(a, b)}
        assert {s for a, b in found for s in range(int(a), int(b))} == online
        assert all(a[1] < b[0] for a, b in pairwise(found))


def test_a_note_says_how_many_intervals_were_merged():
    with pytest.warns(FedsweWarning, match="3 of 5 intervals overlap or touch another of the same device"):
        log = log_of([(1, 0, 100), (1, 5, 10), (2, 50, 60), (1, 20, 30), (1, 100, 120)], "log")
    assert devices(log) == [[(0, 120)], [(50, 60)]]


# mistakes ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("7,0,25\n3,5,20\n", "has no column client: call it client or"),
        ("client,start\n1,2\n", "has no column end: call it end or"),
        ("client,begin,start,end\n1,2,3,4\n", "several columns for start: begin, start"),
        ("# c\nclient,start,end\n1,0,5\n\n1,6,x\n", r"the end \(line 5\) is not a number"),
        ("client,start,end\n1,0,5\n1,7,8,9\n", "Expected 3 fields in line 3, saw 4"),
        ("client,start,end\n\n1,0,5\n2,9,8\n", r"the end \(line 4\) is before the start"),
        ("client,start,end\n1,0,inf\n", r"the end \(line 2\) is not a number of seconds"),
        ("id,start,end\n1,2026-01-01T00:00:00Z,2026-13-01T00:00:00Z\n", r"\(line 2\) is not a timestamp"),
        ("id,start,end\n1,2026-01-01T00:00:00Z,99\n", "must both be seconds, or both be timestamps"),
        ("id,start,end\n1,2026-01-01,2026-01-02\n2,2026-01-01,2026\n", r"the end \(line 3\) is not a timestamp"),
    ],
)
def test_mistakes_name_the_line(text, message, tmp_path):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(FedsweError, match=message) as caught:
        read_log(str(tmp_path / "log.csv"))
    assert str(tmp_path / "log.csv") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (None, "is not a table with rows of client, start, end"),
        ([(1, 2)], "has 2 columns"),
        ({"client": [1], "start": [1]}, "has no column end"),
        ({"client": [1, 2], "start": [[1], [1, 2]], "end": [3, 3]}, r"the start \(row 0, .* is not a number"),
        ([(None, 1, 2)], r"the client \(row 0, counted from 0\) is missing"),
        ([(1.5, 1, 2)], r"\(row 0, counted from 0\) is not a whole number or a text"),
        ([(1, 1, 2), (1, None, 2)], r"the start \(row 1, .* is not a number"),
        ({"client": [1], "start": np.array(["NaT"], "M8[s]"), "end": np.array(["2026"], "M8[s]")}, "is missing"),
    ],
)
def test_mistakes_in_memory(log, message):
    with pytest.raises(FedsweError, match=message) as caught:
        log_of(log, "the log")
    assert "\n" not in str(caught.value)


# timestamps ----------------------------------------------------------------------------------------------
zones = st.sampled_from([UTC, KOLKATA, timezone(-timedelta(hours=3))])
moments = st.datetimes(datetime(1971, 1, 1), datetime(2090, 1, 1), timezones=zones)


@given(st.lists(moments, min_size=1, max_size=20), st.sampled_from(["T", " "]))
def test_timestamps_are_those_of_the_standard_library(times, separator):
    log = log_of([(k, t.isoformat(separator), t) for k, t in enumerate(times)], "log")
    assert log.start.tolist() == log.end.tolist() == [t.timestamp() for t in times]
