"""Runs that ended in NaN have no scores anywhere; what they were before, and their repetition, stand beside."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from fedswe.grid.runner import Executor, run_cells
from fedswe_paper.cell import BOUNDED
from fedswe_paper.measurements import Measurements, arrival
from fedswe_paper.recipes import RECIPES
from fedswe_paper.recipes.fair import tried, tuned
from fedswe_paper.results import CampaignStore
from fedswe_paper.selection import Selection
from tests.paper.handmade import FULL, Story, as_printed, told, world
from tests.paper.test_store import kept, put

K100 = FULL.cell("cifar10", "periodic-static", ("fedswe", 100.0))
LOST = Story(62.0, nan_from=15000, reached={40: 300}, consensus=(2.0, 1.0))


def lost_world(recipes):
    return world(lambda c, story: replace(story, nan_from=15000) if c == K100 else story, recipes=recipes)


def test_a_run_that_diverged_has_no_scores():
    run = told(K100, LOST)
    assert run.diverged
    assert math.isnan(run.score("test_accuracy"))
    curve = run.curve("client_mean_test_accuracy")
    assert np.isnan(curve[run.finite_rows :]).all()
    assert np.isfinite(curve[: run.finite_rows]).all()
    measured = Measurements([run, told(K100, Story(30.0), seed=4)])
    assert math.isnan(measured.score(K100, "test_accuracy").mean)
    assert measured.score(K100, "test_accuracy").std is None
    reached = measured.rounds_to(K100, 0.40)
    assert reached[3] == 300  # what was reached before remains, but decides nothing
    assert math.isnan(arrival(K100, 0.40)(run))
    assert math.isnan(measured.rounds_to(K100, 0.70)[3])
    assert reached[4] == math.inf


def test_the_figure_of_rounds_shows_what_a_run_reached_before_it_diverged():
    page = RECIPES["fig12"].report(FULL, lost_world(["fig12"]))
    assert "a round that a run reached before it ended in NaN is shown, and decides no claim" in page.notes
    assert "a round that" not in " ".join(RECIPES["fig12"].report(FULL, world(recipes=["fig12"])).notes)


def test_chance_is_not_counted_as_an_arrival():
    """A NaN model has 10 %, which is the first target on CINIC-10."""
    cell = FULL.cell("cinic10", "sine", ("fedavg", 0.0))
    measured = Measurements([told(cell, Story(50.0, nan_from=100))])
    assert math.isnan(measured.rounds_to(cell, 0.10)[3])
    (table,) = [t for t in RECIPES["slowdown-table"].report(FULL, measured).tables if "cinic10" in t.title]
    (line,) = [line for line in table.lines if line.keys == ("FedAvg, active",)]
    assert all(math.isnan(value.mean) for value in line.ours)
    assert "| FedAvg, active | diverged (1) |" in table.to_markdown()
    assert "diverged: a run ended in NaN" in table.to_markdown()
    assert "nan" in set(table.rows()["ours_mean"])


def test_a_rate_at_which_a_run_diverged_is_not_chosen():
    small = Selection("small", "released")
    cells = tried(small.cell("fashion_mnist", "sine", ("fedavg", 0.0)))
    stories = [Story(80.0, held_out=50.0 + i, nan_from=250 if i == 3 else math.inf) for i in range(4)]
    measured = Measurements([told(cell, story) for cell, story in zip(cells, stories, strict=True)])
    assert tuned(cells, measured, "server") == cells[2]


@pytest.mark.parametrize("recipe", ["fig6", "fig10", "fig11"])
def test_pages_show_all_rows_before_the_nan(recipe):
    tables = {t.title: t for t in RECIPES[recipe].report(FULL, lost_world([recipe])).tables}
    before = tables["Test accuracy before the first NaN, cifar10, periodic-static"]
    values = {line.keys[0]: [v.mean for v in line.ours] for line in before.lines}
    assert all(math.isfinite(v) for found in values.values() for v in found)
    assert any("until round 5000" in note for note in before.notes)  # the evaluation before 15,000 in this history
    assert not any("staircase" in title and "NaN" in title for title in tables)


def test_the_chart_over_k_has_a_gap_and_the_curve_ends():
    report = RECIPES["fig11"].report(FULL, lost_world(["fig11"]))
    rows = report.charts["by-k"].data.splitlines()
    (at_k100,) = [row for row in rows if "static" in row and ",100," in row.replace(",100.0,", ",100,")]
    assert "nan" in at_k100.lower() or ",," in at_k100
    curve = RECIPES["fig10"].report(FULL, lost_world(["fig10"])).charts["test-accuracy"].data
    ended = [row for row in curve.splitlines() if re.search(r"static, client mean.*k = 100.*,20000", row)]
    assert ended
    assert all("inf" in row for row in ended)


def test_runs_with_bounded_gradients_are_shown_and_never_judged(tmp_path):
    store = CampaignStore(tmp_path)
    ci = Selection("ci", "released")
    cell = ci.cell("digits", "periodic-static", ("fedswe", 100.0))
    put(store, cell, Story(55.0))
    run_cells([replace(cell, seed=3).grid_cell(bounded=True)], store, Executor(jobs=1))
    guarded = tmp_path / "cells" / "ci-released-guarded"
    assert "clip = 10.0" in (guarded / "digits-periodic-static-fedswe-k100-seed3.toml").read_text()
    plain = tmp_path / "cells" / "ci-released" / "digits-periodic-static-fedswe-k100-seed3.csv"
    (guarded / plain.name).write_text(plain.read_text())  # the scores of the story
    (twin,) = kept(tmp_path, f"ci-released-{BOUNDED}")
    assert (twin.bound, twin.score("test_accuracy")) == (10.0, pytest.approx(55.0))

    lost = told(cell, Story(50.0, nan_from=15))
    fine = told(ci.cell("digits", "periodic-static", ("mifa", 0.0)), Story(60.0))
    again = told(fine.cell, Story(61.0))
    measured = Measurements([lost, fine], [twin, replace(again, bound=10.0)])
    tables = {t.title: t for t in RECIPES["fig7"].report(ci, measured).tables}
    shown = tables["Runs repeated with bounded gradients, digits, periodic-static"]
    assert [(line.keys, line.ours[1].mean) for line in shown.lines] == [
        (("FedSWE, k = 100, seed 3",), pytest.approx(55.0)),
        (("MIFA, seed 3",), pytest.approx(61.0)),  # which ended well without the bound, too
    ]
    assert any("in no verdict" in note for note in shown.notes)
    assert math.isnan(measured.score(cell, "test_accuracy").mean)
    assert kept(tmp_path, "ci-released")[0].bound == 0


def test_a_table_with_uneven_seeds_also_has_the_common_ones():
    measured = world(without=lambda c: c.algorithm == "mifa" and c.seed != 3, recipes=["fig7"])
    table = RECIPES["fig7"].report(FULL, measured).tables[0]
    assert table.columns == ("server", "client mean", "server, seed 3", "client mean, seed 3")
    assert {value.seeds for line in table.lines for value in line.ours[2:]} == {1}
    even = RECIPES["fig7"].report(FULL, world(recipes=["fig7"])).tables[0]
    assert even.columns == ("server", "client mean")
    assert as_printed(K100).final == 82
