"""One reader for the tables people have: what pandas, numpy and spreadsheets write is the same mask."""

import sys

import numpy as np
import pandas
import pytest
import torch

from fedswe.availability import Mask
from fedswe.availability.model import Population
from fedswe.engine.base import availability_of
from fedswe.errors import FedsweError

TABLE = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 1]])


def rows_of(mask):
    return availability_of(mask.schedule(Population(TABLE.shape[1]), 0), mask.rounds()).astype(int).tolist()


def lines(cells, separator=","):
    return "\n".join(separator.join(map(str, row)) for row in cells) + "\n"


INDEX = [[t, *row] for t, row in enumerate(TABLE)]
TEXTS = {
    "plain": lines(TABLE),
    "semicolons": lines(TABLE, ";"),
    "tabs": lines(TABLE, "\t"),
    "spaces": lines(TABLE, "  "),
    "windows": lines(TABLE).replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + lines(TABLE),
    "quotes": lines([[f'"{cell}"' for cell in row] for row in TABLE]),
    "comments": "# rounds\n\n" + lines(TABLE).replace("\n", "\n# a round\n", 1) + "# end\n",
    "header": "ann,bob,cem,dan\n" + lines(TABLE),
    "header of numbers": "0,1,2,3\n" + lines(TABLE),
    "index": lines(INDEX),
    "header and index of a data frame": ",0,1,2,3\n" + lines(INDEX),
    "dates": "day,a,b,c,d\n" + lines([[f"2026-01-0{t + 1}", *row] for t, row in enumerate(TABLE)]),
    "booleans": lines(TABLE.astype(bool)),
    "booleans with header and index": ",a,b,c,d\n" + lines([[t, *row] for t, row in enumerate(TABLE.astype(bool))]),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts(case, tmp_path):
    (tmp_path / "mask.csv").write_text(TEXTS[case], encoding="utf-8", newline="")
    assert rows_of(Mask(str(tmp_path / "mask.csv"))) == TABLE.tolist()


def test_a_first_row_of_values_is_not_a_header(tmp_path):
    (tmp_path / "mask.csv").write_text("0,1\n1,0\n")
    assert Mask(str(tmp_path / "mask.csv")).rounds() == 2


def test_numpy_files(tmp_path):
    np.save(tmp_path / "mask.npy", TABLE.astype(bool))
    np.savez(tmp_path / "one.npz", TABLE)
    np.savez(tmp_path / "two.npz", mask=TABLE, prob=np.full((1, 4), 0.5))
    assert rows_of(Mask(str(tmp_path / "mask.npy"))) == TABLE.tolist()
    assert rows_of(Mask(str(tmp_path / "one.npz"))) == TABLE.tolist()
    file = str(tmp_path / "two.npz")
    both = Mask(file, file, key="mask", prob_key="prob")
    assert rows_of(both) == TABLE.tolist()
    assert both.schedule(Population(4), 0).prob(2).tolist() == [0.5] * 4


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = pandas.DataFrame(TABLE.astype(bool), columns=list("abcd"), index=pandas.date_range("2026", periods=3))
    frame.rename_axis("day").to_parquet(tmp_path / "mask.parquet")
    assert rows_of(Mask(str(tmp_path / "mask.parquet"))) == TABLE.tolist()


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "mask.parquet").write_bytes(b"PAR1")
    with pytest.raises(FedsweError, match=r"pip install .fedswe\[paper\]"):
        Mask(str(tmp_path / "mask.parquet")).rounds()


@pytest.mark.parametrize(
    "array", [TABLE, TABLE.astype(bool), TABLE.tolist(), torch.tensor(TABLE), torch.tensor(TABLE).bool()]
)
def test_arrays(array):
    assert rows_of(Mask.from_array(array)) == TABLE.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0,1,1\n1,0,x,1\n", "line 2: 'x' is not a number"),
        ("# c\n\na,b,c,d\n1,0,1,1\n1,0,1\n", "line 5: '' is not a number"),
        ("1,0,1,1\n1,0,1,1,0\n", "Expected 4 fields in line 2, saw 5"),
        (
            "a,b,c,d\n# c\n1,0,1,1\n\n1,3,1,1\n",
            r"must hold only 0 and 1, found 3 \(round 1, client 1",
        ),
        (",a,b,c,d\n0,1,0,1,7\n", r"found 7 \(round 0, client 3"),
        ("1,0,1,nan\n", "found nan"),
        ("x,0,1,1\n1,1,1,1\n", "line 1: 'x' is not a number"),
        ("a,b,c,d\n", "is empty"),
        ("1,0,1," + "1" * 200_000 + "\n", "found inf"),
        ("1,0\n" * 4, "has 2 columns for 4 clients: give one column per client; set availability.orient"),
    ],
)
def test_mistakes_name_the_line(text, message, tmp_path):
    (tmp_path / "mask.csv").write_text(text)
    with pytest.raises(FedsweError, match=message) as caught:
        Mask(str(tmp_path / "mask.csv")).schedule(Population(4), 0)
    assert str(tmp_path / "mask.csv") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (TABLE[0], r"must have two dimensions.* not the shape \(4,\)"),
        (2 * TABLE, r"must hold only 0 and 1, found 2 \(round 0, client 0"),
        ([[1, 0], [1]], "rows of equal length"),
        (np.zeros((0, 4)), "is empty"),
        (1j * TABLE, "holds complex numbers"),
    ],
)
def test_mistakes_of_arrays(array, message):
    with pytest.raises(FedsweError, match=message) as caught:
        Mask.from_array(array)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", b"nothing", "not a numpy file"),
        ("a.csv", b"\xff\x00\x81", "not UTF-8 text"),
    ],
)
def test_files_of_something_else(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FedsweError, match=message):
        Mask(str(tmp_path / name)).rounds()


def test_an_npz_with_several_arrays_needs_a_key(tmp_path):
    np.savez(tmp_path / "two.npz", a=TABLE, b=TABLE)
    for key in ("", "c"):
        with pytest.raises(FedsweError, match=r"choose one of a, b with availability\.key"):
            Mask(str(tmp_path / "two.npz"), key=key).rounds()


# clients in rows -----------------------------------------------------------------------------------------
COUNTRIES = [[name, *row] for name, row in zip(["Germany", "France", "Italy", "Spain"], TABLE.T, strict=True)]
TURNED = {
    "names and counted rounds": "country,1,2,3\n" + lines(COUNTRIES),
    "counted from 0": ",0,1,2\n" + lines(COUNTRIES),
}


@pytest.mark.parametrize("case", TURNED)
def test_clients_in_rows_are_noticed_and_taken_if_asked(case, tmp_path):
    file = tmp_path / "matrix.csv"
    file.write_text(TURNED[case])
    with pytest.raises(FedsweError, match=r"'Germany': set availability\.orient = \"clients\" if the rows") as caught:
        Mask(str(file)).rounds()
    assert "\n" not in str(caught.value)
    assert "not a CSV" not in str(caught.value)
    assert rows_of(Mask(str(file), orient="clients")) == TABLE.tolist()
    assert Mask(str(file), orient="rounds").clients() == 3


def test_arrays_and_frames_with_clients_in_rows():
    frame = pandas.DataFrame(TABLE.T, index=[row[0] for row in COUNTRIES], columns=[1, 2, 3])
    with pytest.raises(FedsweError, match=r"availability\.orient"):
        Mask.from_array(frame)
    assert (
        Mask.from_array(frame, orient="clients") == Mask.from_array(TABLE) == Mask.from_array(TABLE.T, orient="clients")
    )
    known = Mask.from_array(TABLE.T, [[0.5], [0.6], [0.7], [0.8]], orient="clients").schedule(Population(4), 0)
    assert known.prob(1).tolist() == [0.5, 0.6, 0.7, 0.8]


def test_dates_are_no_names_of_clients(tmp_path):
    (tmp_path / "mask.csv").write_text(
        ",0,1,2,3\n" + lines([[f"2026-01-0{t + 1}", *row] for t, row in enumerate(TABLE)])
    )
    assert rows_of(Mask(str(tmp_path / "mask.csv"))) == TABLE.tolist()
