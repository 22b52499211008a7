"""The comparison of shown and printed lines notices what a reader would notice."""

import pytest

from tests.docs.output import first_difference

PRINTED = ["two clients", "┏━━━┳━━━┓", "┃ k ┃ x ┃", "┡━━━╇━━━┩", "│ 0 │ 1 │", "│ 1 │ 2 │", "└───┴───┘", "took 3.2 s"]


@pytest.mark.parametrize(
    ("shown", "named"),
    [
        (["two ...", "...", "│ 1 │ 2 │", "took 0.1 s"], ""),
        (["two clients", "│ 0 │ 1 │", "..."], "┃ k ┃ x ┃"),  # a line is left out without ...
        (["...", "│ 1 │ 3 │", "..."], "│ 1 │ 3 │"),  # another number
        (["...", "│ 1 │ 2 │", "│ 0 │ 1 │", "..."], "│ 0 │ 1 │"),  # another order
        (["two clients", "...", *PRINTED[4:6]], "took TIME"),  # the page ends too early
        (["...", "took 3.2 s", "and more"], "nothing more"),
    ],
)
def test_differences_are_named(shown, named):
    found = first_difference(shown, PRINTED)
    assert named in found
    assert bool(named) == bool(found)
