"""Readings: another answer to what the paper leaves open is a cell of its own, with a name and a row of its own."""

from dataclasses import replace

import pytest

from fedswe.errors import FedsweError
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.profile import READINGS
from fedswe_paper.published import look_up
from fedswe_paper.recipes import RECIPES
from fedswe_paper.recipes.labels import label
from fedswe_paper.results import CampaignStore
from fedswe_paper.selection import Selection
from tests.paper.handmade import FULL, Story, told
from tests.paper.test_cells import flat
from tests.paper.test_store import put

CI = Selection("ci", "released")
F3AST = FULL.cell("cifar10", "sine", ("f3ast", 0.0))
SEATED = replace(F3AST, reading="seats10")
K100 = FULL.cell("cifar10", "sine", ("fedswe", 100.0))
READ = RECIPES["readings"]


def test_a_reading_is_in_the_name_and_the_default_is_silent():
    assert [replace(cell, seed=3).name for cell in (F3AST, SEATED)] == [
        "cifar10-sine-f3ast-seed3",
        "cifar10-sine-f3ast-seats10-seed3",
    ]
    assert replace(K100, reading="unclipped", rate=0.2).name == "cifar10-sine-fedswe-k100-unclipped-rate0.2-seed0"


@pytest.mark.parametrize("profile", ["paper", "released"])
@pytest.mark.parametrize(("reading", "algorithm"), [(r, of) for r, meant in READINGS.items() for of in meant.of])
def test_a_reading_changes_its_settings_and_nothing_else(reading, algorithm, profile):
    meant = READINGS[reading]
    default = PaperCell("full", profile, "svhn", "sine", algorithm, 3, k=100.0)
    before, after = flat(default.experiment()), flat(replace(default, reading=reading).experiment())
    moved = {"algorithm.name": "fedswe_variant", "algorithm.echo_cap": 0.0}  # where progress_over is a parameter
    assert after == before | meant.settings | (moved if "algorithm.progress_over" in meant.settings else {})
    assert after != before or (reading, profile) == ("unclipped", "paper")  # its text clips no average


@pytest.mark.parametrize(
    ("algorithm", "reading", "message"),
    [
        ("f3ast", "seats11", f"unknown reading 'seats11': choose from {', '.join(READINGS)}"),
        ("fedswe", "seats10", "seats10 is a reading of f3ast, not of fedswe"),
        ("mifa", "unclipped", "unclipped is a reading of fedswe, not of mifa"),
        ("mifa", "constant-rate", "constant-rate is a reading of fedswe and fedavg, not of mifa"),
    ],
)
def test_a_wrong_reading_is_refused(algorithm, reading, message):
    with pytest.raises(FedsweError) as raised:
        FULL.cell("cifar10", "sine", (algorithm, 0.0), reading=reading)
    assert str(raised.value) == message


def test_a_run_with_ten_seats_does_not_pass_for_the_default(tmp_path):
    store = CampaignStore(tmp_path)
    put(store, SEATED, Story(51.0))
    for path in (tmp_path / "cells" / "full-released").iterdir():
        path.rename(path.with_name(path.name.replace("-seats10", "")))
    with pytest.raises(FedsweError, match=r"other settings \(algorithm.budget = 10 there, 0 here\)"):
        store.finished(replace(F3AST, seed=3).grid_cell())


# the recipe -------------------------------------------------------------------------------------------------------
def rows_of(choice=FULL, runs=()):
    (table,) = READ.report(choice, Measurements(runs)).tables
    return table


def test_every_reading_is_shown_beside_the_published_number_of_its_method():
    table = rows_of(runs=[told(SEATED, Story(51.0)), told(replace(K100, rate=0.4), Story(63.0))])
    lines = {line.keys: line for line in table.lines}
    assert len(lines) == len(table.lines) == 2 * (27 + 2 * 14)
    for (dataset, dynamics, name, _), line in lines.items():
        k = 100 if "k = 100" in name else 0
        method = name.split(",")[0].lower()
        printed = look_up("table2", dataset=dataset, dynamics=dynamics, algorithm=method, k=k).values
        assert line.paper == [printed["train"], printed["test"]]
    measured = {keys: line.ours[1].mean for keys, line in lines.items() if line.ours[1] is not None}
    assert measured == pytest.approx(
        {("cifar10", "sine", "F3AST, ten seats", "0.05"): 51.0, ("cifar10", "sine", "FedSWE, k = 100", "0.4"): 63.0}
    )


def test_the_report_says_what_each_reading_is():
    notes = rows_of().notes
    for reading, meant in READINGS.items():
        for of in meant.of:
            cell = FULL.cell("svhn", "sine", (of, 100.0 if of == "fedswe" else 0.0), reading=reading)
            assert f"{label(cell)}: {meant.why}" in notes


def test_a_reading_that_the_profile_follows_anyway_is_left_out():
    names = {cell.name for cell in READ.lines(replace(FULL, profile="paper"))}
    assert not any("unclipped" in name for name in names)
    assert {cell.name for cell in READ.lines(FULL)} - names == {
        f"{dataset}-sine-fedswe-k100-unclipped{rate}-seed0"
        for dataset in ("svhn", "cifar10")
        for rate in ("", "-rate0.2")
    }
