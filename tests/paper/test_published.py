"""The paper's numbers are complete, consistent with each other and with what its text says of them."""

import math

import pytest

from fedswe.errors import FedsweError
from fedswe_paper.published import look_up, published

DATASETS = ("svhn", "cifar10", "cinic10")
DYNAMICS = ("stationary", "staircase", "sine")
ALONE = ("fedswe", "fedavg", "fedavg_all", "gfedavg", "fedau", "f3ast")  # neither memory nor known statistics
AIDED = ("fedavg_known", "mifa", "fedvarp")


def test_table_2_is_complete():
    rows = published("table2")
    keys = {tuple(row.keys.values()) for row in rows}
    methods = [("fedswe", "0"), ("fedswe", "100"), *((a, "") for a in (*ALONE[1:], *AIDED))]
    assert len(rows) == 90
    assert keys == {(d, f, a, k) for d in DATASETS for f in DYNAMICS for a, k in methods}


def test_tables_8_and_9_are_complete():
    methods = [("fedswe", "0"), *((a, "") for a in ("fedavg", "fedavg_all", "fedau", "f3ast", "fedavg_known", "mifa"))]
    for table, name, values in (
        ("table8", "gamma", ("0.3", "0.2", "0.1")),
        ("table9", "alpha", ("0.05", "0.1", "1.0")),
    ):
        rows = published(table)
        assert len(rows) == 21
        assert {(r.keys[name], r.keys["algorithm"], r.keys["k"]) for r in rows} == {
            (v, a, k) for v in values for a, k in methods
        }


def test_table_7_is_complete_and_its_rounds_grow_with_the_target():
    rows = published("table7")
    assert len(rows) == 3 * 7 * 4
    for at in range(0, len(rows), 4):
        four = rows[at : at + 4]
        assert len({(r.keys["dataset"], r.keys["algorithm"]) for r in four}) == 1
        targets, rounds = [float(r.keys["target"]) for r in four], [r.values["rounds"].mean for r in four]
        assert targets == sorted(targets)
        assert rounds == sorted(rounds)
    never = {(r.keys["dataset"], r.keys["algorithm"]) for r in rows if math.isinf(r.values["rounds"].mean)}
    assert never == {(dataset, "fedavg_all") for dataset in DATASETS}


def test_what_two_tables_share_is_equal():
    """gamma = 0.3 in Table 8 and alpha = 0.1 in Table 9 are SVHN under the sine of Table 2."""
    for table, key in (("table8", {"gamma": 0.3}), ("table9", {"alpha": 0.1})):
        shared = [row for row in published(table) if float(row.keys[next(iter(key))]) == next(iter(key.values()))]
        assert len(shared) == 7
        for row in shared:
            who = {"algorithm": row.keys["algorithm"], "k": row.keys["k"]}
            same = look_up("table2", dataset="svhn", dynamics="sine", **who)
            assert same is not None
            assert row.values == same.values


@pytest.mark.parametrize(
    ("table", "sums"),
    [
        ("table2", (5797.3, 114.3, 5740.2, 108.5)),
        ("table8", (1731.6, 20.6, 1730.8, 21.8)),
        ("table9", (1736.3, 20.6, 1729.5, 22.2)),
    ],
)
def test_sums_over_the_tables_of_the_paper(table, sums):
    """Column sums taken from the paper's source by another way than the transcription: no digit can slip unseen."""
    values = [row.values[column] for column in ("train", "test") for row in published(table)]
    half = len(values) // 2
    found = [sum(getattr(v, part) for v in side) for side in (values[:half], values[half:]) for part in ("mean", "std")]
    assert found == pytest.approx(sums, abs=1e-6)


def test_sum_over_table_7():
    rounds = [row.values["rounds"].mean for row in published("table7")]
    assert sum(r for r in rounds if math.isfinite(r)) == 19100


def test_look_up_takes_numbers_or_text_and_knows_what_the_paper_lacks():
    row = look_up("table9", dataset="svhn", dynamics="sine", alpha=1, algorithm="mifa")
    assert row is not None
    assert row == look_up("table9", dataset="svhn", dynamics="sine", alpha="1.0", algorithm="mifa", k=0.0)
    assert (row.values["test"].mean, row.values["test"].std) == (87.5, 0.1)
    assert look_up("table2", dataset="svhn", dynamics="sine", algorithm="fedswe", k=10) is None


def test_wrong_names_are_refused():
    with pytest.raises(FedsweError, match="choose table2, table7"):
        published("table3")
    with pytest.raises(FedsweError, match="looked up by dynamics, algorithm, too"):
        look_up("table2", dataset="svhn")
