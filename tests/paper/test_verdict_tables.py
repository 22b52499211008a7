"""Verdict tables: the difference is in the right units, nothing is hidden, and each format can be read back."""

import math
import re

import pytest

from fedswe_paper.tables import Line, Measured, VerdictTable, difference

PAPER = Measured(85.6, 0.9, 3)


def table(*ours, paper=PAPER, **more):
    lines = [Line((f"row_{i}",), (value,), (paper,)) for i, value in enumerate(ours)]
    return VerdictTable("Table 2: 50% of it", ("algorithm",), ("test",), lines, "released", **more)


def body(markdown):
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in markdown.splitlines() if row.startswith("|")][2:]


def test_pooled_std():
    apart = difference(Measured(87.1, 1.2, 3), PAPER)
    assert apart is not None
    assert apart.spread == pytest.approx(math.sqrt((1.2**2 + 0.9**2) / 2))
    assert apart.in_spreads == pytest.approx(1.5 / 1.06066, rel=1e-5)


def test_one_seed_is_judged_by_the_papers_std_and_the_table_says_so():
    text = table(Measured(87.4, None, 1)).to_markdown()
    assert body(text) == [["row_0", "87.4 (1)", "85.6 ± 0.9 (3)", "+2.0"]]
    assert "one seed, s is the paper's std alone" in text
    assert "one seed" not in table(Measured(87.4, 0.5, 3)).to_markdown()


def test_what_is_missing_shows_and_is_explained():
    text = table(None).to_markdown()
    assert body(text) == [["row_0", "—", "85.6 ± 0.9 (3)", "—"]]
    assert "not measured" in text
    lines = [Line(("fedswe", k), (PAPER,), (paper,)) for k, paper in (("0", PAPER), ("10", None))]
    text = VerdictTable("t", ("algorithm", "k"), ("test",), lines, "paper").to_markdown()
    assert body(text)[1] == ["fedswe", "10", "85.6 ± 0.9 (3)", "—", "—"]
    assert "not measured" not in text
    assert "the paper has no such number" in text


def test_where_the_paper_prints_nothing_no_column_waits_for_it():
    ours = table(PAPER, None, paper=None)
    text = ours.to_markdown()
    assert body(text) == [["row_0", "85.6 ± 0.9 (3)"], ["row_1", "—"]]
    assert "the paper prints no numbers here" in text
    assert "— is not measured" in text
    assert "Δ" not in text


def test_rounds_that_were_never_enough():
    never = Measured(math.inf, None, 3)
    text = table(never, Measured(420, 35.0, 3), paper=Measured(400, None, 3), unit="rounds").to_markdown()
    assert [row[1:] for row in body(text)] == [["never (3)", "400 (3)", "—"], ["420 ± 35 (3)", "400 (3)", "+0.6"]]
    assert "s is ours alone" in text
    text = table(Measured(380, None, 1), paper=Measured(400, None, 3), unit="rounds").to_markdown()
    assert body(text)[0][-1] == "−20 rounds"


def test_a_std_of_zero_divides_nothing():
    text = table(Measured(82.1, None, 1), paper=Measured(82.6, 0.0, 3)).to_markdown()
    assert body(text)[0][-1] == "−0.5 %"
    assert "the difference itself" in text


def test_csv_is_exact_and_has_one_row_per_line_and_column():
    lines = [
        Line(("fedswe, k=0", "sine"), (Measured(1 / 3, 0.1, 3), None), (Measured(0.5, 0.2, 3), PAPER)),
        Line(("mifa", "sine"), (Measured(math.inf, None, 1), PAPER), (None, PAPER)),
    ]
    table = VerdictTable("t", ("algorithm", "dynamics"), ("train", "test"), lines, "paper")
    rows = table.rows().to_dict("records")
    assert [(r["algorithm"], r["column"]) for r in rows] == [
        (a, c) for a in ("fedswe, k=0", "mifa") for c in ("train", "test")
    ]
    first = rows[0]
    assert float(first["ours_mean"]) == 1 / 3
    assert float(first["difference_in_pooled_std"]) == (1 / 3 - 0.5) / math.sqrt((0.01 + 0.04) / 2)
    assert (first["unit"], first["profile"], first["ours_seeds"], first["pooled_over"]) == ("%", "paper", "3", "both")
    assert rows[1]["ours_mean"] == rows[1]["difference"] == ""
    assert rows[2]["ours_mean"] == "inf"


def test_markdown_rows_have_all_cells():
    odd = VerdictTable("A_b & 5% | #1", ("who|k",), ("a_b", "c"), [Line(("x|y",), (PAPER, None), (PAPER, PAPER))], "p")
    cells = [len(re.split(r"(?<!\\)\|", row)) - 2 for row in odd.to_markdown().splitlines() if row.startswith("|")]
    assert cells == [7, 7, 7]
