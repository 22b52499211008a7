"""The history of a run as it grows, is cut back, and becomes long."""

import os
from itertools import pairwise

from fedswe.live.curve import POINTS, Curve

HEADER = "round,server_loss,seconds\n"


def lines(rounds, shift=0.0):
    return "".join(f"{t},{t / 10 + shift},{t}.5\n" for t in rounds)


def test_a_reader_is_sent_everything_once_and_then_what_is_new(tmp_path):
    path = tmp_path / "history.csv"
    curve = Curve(path)
    curve.look()
    assert curve.since((-1, 0, 0))["rows"] == []
    path.write_text(HEADER + lines(range(3)))
    curve.look()
    first = curve.since((-1, 0, 0))
    assert first == {
        "new": True, "columns": ["round", "server_loss", "seconds"], "tip": [2.0, 0.2, 2.5],
        "rows": [[0.0, 0.0, 0.5], [1.0, 0.1, 1.5], [2.0, 0.2, 2.5]],
    }  # fmt: skip
    seen = curve.position
    with open(path, "a") as file:
        file.write(lines([3]))
    curve.look()
    assert curve.since(seen) == {"new": False, "rows": [[3.0, 0.3, 3.5]], "tip": [3.0, 0.3, 3.5]}


def test_a_history_that_was_cut_back_and_written_again_is_sent_anew(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text(HEADER + lines(range(6)))
    curve = Curve(path)
    curve.look()
    seen = curve.position
    os.truncate(path, len(HEADER + lines(range(4))))
    with open(path, "a") as file:
        file.write(lines(range(4, 9), shift=5.0))
    curve.look()
    message = curve.since(seen)
    assert message["new"]
    assert [row[0] for row in message["rows"]] == list(range(9))
    assert message["rows"][5][1] == 5.5


def test_a_long_history_is_thinned_and_keeps_its_last_row(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text(HEADER)
    curve, rounds = Curve(path), 3 * POINTS + 1
    with open(path, "a") as file:
        for begin in range(0, rounds, 500):
            file.write(lines(range(begin, min(begin + 500, rounds))))
            file.flush()
            curve.look()
            assert len(curve.rows) <= POINTS
    message = curve.since((-1, 0, 0))
    kept = [row[0] for row in message["rows"]]
    assert len({b - a for a, b in pairwise(kept)}) == 1  # evenly
    assert message["tip"][0] == rounds - 1


def test_a_file_that_is_no_history_is_no_curve(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text(HEADER + "1,nan,2\n2,inf,3\nx,y,z\n1,2\n1,2,3,4\n\n3,4,5\n")
    curve = Curve(path)
    curve.look()
    assert curve.since((-1, 0, 0))["rows"] == [[1, None, 2], [2, None, 3], [3, 4, 5]]
    path.write_text("root:x:0:0\nsecret\n")
    curve.look()
    assert curve.since((-1, 0, 0))["columns"] == [""]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    Curve(pipe).look()  # does not wait for a writer
    path.unlink()
    curve.look()
    assert curve.since((-1, 0, 0))["rows"] == []
