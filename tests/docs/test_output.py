"""The comparison of shown and printed lines notices what a reader would notice."""

import pytest

from tests.docs.output import first_difference

PRINTED = ["two clients", "┏━━━┳━━━┓", "┃ k ┃ x ┃", "┡━━━╇━━━┩", "│ 0 │ 1 │", "│ 1 │ 2 │", "└───┴───┘", "took 3.2 s"]


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        ["two clients", "┃ k ┃ x ┃", "│ 0 │ 1 │", "│ 1 │ 2 │", "took 17 s"],
        ["...", "│ 0 │ 1 │", "..."],
        ["two clients", "...", "took 1 s"],
        ["two ...", "...", "│ 1 │ 2 │", "took 0.1 s"],
    ],
)
def test_lines_that_agree(shown):
    assert first_difference(shown, PRINTED) == ""


@pytest.mark.parametrize(
    ("shown", "named"),
    [
        (["two clients", "│ 0 │ 1 │", "..."], "┃ k ┃ x ┃"),  # a line is left out without ...
        (["...", "│ 1 │ 3 │", "..."], "│ 1 │ 3 │"),  # another number
        (["...", "│ 1 │ 2 │", "│ 0 │ 1 │", "..."], "│ 0 │ 1 │"),  # another order
        (["two clients", "...", *PRINTED[4:6]], "took TIME"),  # the page ends too early
        (["...", "took 3.2 s", "and more"], "nothing more"),
    ],
)
def test_lines_that_do_not(shown, named):
    assert named in first_difference(shown, PRINTED)
