"""Traces of others: read as they mean it, and never executed."""

import json
import math
import os
import pickle
import struct

import numpy as np
import pytest

from fedswe.availability import trace
from fedswe.availability.log import read_log
from fedswe.errors import FedsweError, FedsweWarning
from tests.availability.test_interval_log import devices

FEDSCALE = {
    7: {"active": [0, 100, 400], "inactive": [20, 250], "finish_time": 500, "duration": 270, "model": "x"},
    "b": {"active": [10.5], "inactive": [30], "finish_time": 60, "duration": 1, "model": "y"},
}


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


# FedScale --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_fedscale(tmp_path, protocol):
    entries = {str(k): v for k, v in FEDSCALE.items()}
    log = read_log(written(tmp_path, "client_behave_trace", pickle.dumps(entries, protocol)))
    assert devices(log) == [[(0, 20), (100, 250), (400, 500)], [(10.5, 30)]]
    assert devices(log.observed) == [[(0, 500)], [(0, 60)]]
    assert not log.dated


LAUGH = ["x"]
for _ in range(9):
    LAUGH = [LAUGH] * 12


class Command:
    def __reduce__(self):
        return os.system, ("touch EXECUTED",)


class State:
    def __setstate__(self, state):
        raise AssertionError("executed")


MALICIOUS = {
    "a call": pickle.dumps({1: Command()}),
    "a class": pickle.dumps({1: State()}),
    "an instance": b"(dp0\nI1\n(ios\nsystem\n(S'touch EXECUTED'\ntR.",
    "an object": b"\x80\x02}K\x01(cos\nsystem\nX\x0e\x00\x00\x00touch EXECUTEDos.",
    "a name by the stack": b"\x80\x04}K\x01\x8c\x02os\x8c\x06system\x93\x8c\x0etouch EXECUTED\x85Rs.",
    "an extension": b"\x80\x02}K\x01\x82\x01s.",
    "cut off": pickle.dumps(FEDSCALE)[:-3],
    "a length beyond the file": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
    "nested": b"\x80\x02" + b"(" * 100_000,
    "a nested tuple as key": b"\x80\x04})" + b"\x85" * 400_000 + b"K\x01s.",
    "a place in the memo beyond memory": b"\x80\x04}r\x00\x00\x00\x10.",
    "a list within itself a billion times": pickle.dumps({1: {"active": [LAUGH], "inactive": [5], "finish_time": 9}}),
    "numbers without end": pickle.dumps({10**5000: {}}),
    "items for a number": b"\x80\x02K\x01K\x02a.",
    "ids of two kinds": pickle.dumps(FEDSCALE),
}


@pytest.mark.parametrize("case", MALICIOUS)
def test_a_malicious_pickle_is_refused_and_nothing_is_executed(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FedsweError) as raised:
        read_log(written(tmp_path, "trace", MALICIOUS[case]))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "EXECUTED").exists()


WRONG = {
    "no lists": {1: {"active": 3, "inactive": [4], "finish_time": 9}},
    "unequal": {1: {"active": [1, 5], "inactive": [2, 6, 7], "finish_time": 9}},
    "NaN": {1: {"active": [math.nan], "inactive": [4], "finish_time": 9}},
    "end before start": {1: {"active": [5], "inactive": [4], "finish_time": 9}},
    "no length": {1: {"active": [5], "inactive": [6], "finish_time": 0}},
    "huge": {1: {"active": [10**400], "inactive": [10**401], "finish_time": 10**402}},
    "empty": {},
    "a tuple as id": {(1, 2): {"active": [1], "inactive": [2], "finish_time": 9}},
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_in_a_pickle_are_one_line(tmp_path, case):
    with pytest.raises(FedsweError) as raised:
        read_log(written(tmp_path, "trace", pickle.dumps(WRONG[case])))
    assert "\n" not in str(raised.value)


def test_a_small_pickle_cannot_name_a_list_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "LONGEST", 1000)
    shared = {"active": list(range(0, 200, 2)), "inactive": list(range(1, 200, 2)), "finish_time": 300}
    with pytest.raises(FedsweError, match="more than 1,000 intervals"):
        read_log(written(tmp_path, "trace", pickle.dumps(dict.fromkeys(range(50), shared))))


# FLASH -----------------------------------------------------------------------------------------------------
def messages(*events):
    return "\n".join(f"2020-01-02 00:{minute:02d}:00\t{event}" for minute, event in events)


FLASH = {
    "a": {
        "guid": "a",
        "model": "m",
        "messages": messages(
            (0, "screen_lock"),
            (1, "battery_charged_on"),
            (2, "Wifi"),
            (3, "55.0%"),
            (5, "4G"),
            (6, "wifi"),
            (7, "screen_on"),
            (8, "screen_unlock"),
            (9, "screen_lock"),
            (12, "80.0%"),
        ),
    },
    "b": {"guid": "b", "model": "m", "messages": messages((0, "screen_lock"), (30, "battery_charged_on"))},
}


def test_flash(tmp_path):
    log = read_log(written(tmp_path, "state_traces.json", json.dumps(FLASH)))
    midnight = 1577923200.0
    assert devices(log, midnight) == [[(120, 300), (360, 480), (540, 720)], []]
    assert devices(log.observed, midnight) == [[(0, 720)], [(0, 1800)]]
    assert log.dated


def test_devices_of_flash_that_cannot_be_read_are_left_out(tmp_path):
    bad = {**FLASH, "c": {"messages": "nonsense"}, "d": {"messages": messages((0, "explode"), (1, "wifi"))}}
    with pytest.warns(FedsweWarning, match=r"2 of 4 devices cannot be read and are left out, first 'c'"):
        log = read_log(written(tmp_path, "state_traces.json", json.dumps(bad)))
    assert log.devices == 2


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', '{"a": {"messages": "x"}}', "{}", "[" * 100_000])
def test_json_that_is_no_trace_is_one_line(tmp_path, text):
    with pytest.raises(FedsweError) as raised:
        read_log(written(tmp_path, "trace.json", text))
    assert "\n" not in str(raised.value)


# errors and tables -----------------------------------------------------------------------------------------
def test_errors_name_the_device(tmp_path):
    entries = {"a": {"active": [1, 5], "inactive": [2, 3], "finish_time": 9}}
    entries = {"z": {"active": [1], "inactive": [2], "finish_time": 9}} | entries
    with pytest.raises(FedsweError, match=r"the end \(device 'a'\) is before the start"):
        read_log(written(tmp_path, "trace", pickle.dumps(entries)))


def test_ids_that_a_table_cannot_hold_are_one_line(tmp_path):
    events = messages((0, "screen_lock"), (1, "wifi"), (2, "battery_charged_on"), (3, "4g"))
    for ids in (["#a", "b"], ["1", "01"]):
        content = {name: {"messages": events} for name in ids}
        log = read_log(written(tmp_path, "x.json", json.dumps(content)))
        with pytest.raises(FedsweError, match="rename"):
            log.to_csv()
    with pytest.raises(FedsweError, match="printable"):
        read_log(written(tmp_path, "y.json", json.dumps({"\ud800": FLASH["a"]})))


def test_a_log_written_as_csv_is_the_same_log(tmp_path):
    log = read_log(written(tmp_path, "t", pickle.dumps({str(k): v for k, v in FEDSCALE.items()})))
    again = read_log(
        written(tmp_path, "t.csv", log.to_csv()),
        written(tmp_path, "t.observed.csv", log.observed.to_csv()),
    )
    assert again.digest() == log.digest()
    assert np.array_equal(again.labels.astype(str), log.labels.astype(str))
