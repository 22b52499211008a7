"""A fit says which statistics it does not meet."""

import numpy as np

from fedswe.analysis.description import fit_trace, met, of_table


def test_what_chains_cannot_do_is_said():
    """Turns of exactly ten rounds: chains have stays of any length."""
    turns = (np.arange(200)[:, None] // 10 + np.arange(20)) % 2 == 0
    _, found = fit_trace(of_table("turns", turns), 600.0)
    as_expected = found.values["statistics"].set_index("statistic")["met"]
    assert as_expected["mean availability"]
    assert not as_expected["session, 95 %"]
    assert any(note.startswith("not met: session, 95 %: 10 in the trace") for note in found.notes)
    assert any("shorter than three days" in note for note in found.notes)


def test_devices_that_leave_the_record_are_noticed():
    rng = np.random.default_rng(0)
    rows = rng.random((300, 60)) < 0.4
    rows[100:, ::2] = False
    notes = fit_trace(of_table("left", rows), 600.0)[1].notes
    assert any("observed for a part of the time only" in note for note in notes)


def test_one_client_and_few_rounds_can_be_fit_trace():
    rng = np.random.default_rng(1)
    for shape in ((300, 1), (4, 5)):
        assert fit_trace(of_table("small", rng.random(shape) < 0.5), 600.0)[1].values["clients"] == shape[1]


def test_a_statistic_that_the_trace_does_not_have_is_not_missed():
    nan = float("nan")
    assert met(nan, nan, 1.0)
    assert met(nan, 3.0, 1.0)
    assert not met(5.0, 3.0, 1.0)
    assert not met(5.0, nan, 1.0)
