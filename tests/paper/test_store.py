"""The results directory of a reproduction: what counts as finished, and damage."""

import csv
import io

import pytest

from fedswe.errors import FedsweError
from fedswe.experiment.configuration import dump
from fedswe.results.run_directory import RunDirectory, provenance
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes import RECIPES
from fedswe_paper.recipes.labels import remarks
from fedswe_paper.results import CampaignStore, load_runs, merge
from fedswe_paper.selection import Selection
from tests.paper.handmade import Story, told

CI = Selection("ci", "released")
CELL = CI.cell("digits", "sine", ("fedavg", 0.0))


def put(store, cell, story, seed=3):
    """Finish a cell with chosen numbers, by the way every cell takes."""
    run = told(cell, story, seed)
    cell = run.cell.grid_cell()
    directory = RunDirectory(store.work(cell))
    directory.create(dump(cell.experiment), provenance())
    (directory.path / "history.csv").write_text(run.history.to_csv())
    directory.finish(b"")
    store.keep(cell)
    return run.cell


def kept(out, grid):
    """The runs of a grid, those that have just ended among them."""
    merge(out)
    return load_runs(out, grid)


@pytest.fixture
def store(tmp_path):
    return CampaignStore(tmp_path)


def test_a_kept_cell_is_read_back(store):
    cell = put(store, CELL, Story(71.25))
    assert store.finished(cell.grid_cell())
    assert not store.work(cell.grid_cell()).exists()
    assert not store.finished(CI.cell("digits", "sine", ("mifa", 0.0)).grid_cell())
    (run,) = kept(store.path, "ci-released")
    assert run.cell == cell
    assert run.score("test_accuracy") == pytest.approx(71.25)
    assert kept(store.path, "ci-paper") == []


def test_the_longest_runs_count(store):
    for seed in (3, 4):
        put(store, CELL, Story(50.0 + seed), seed)
    put(store, CI.cell("digits", "sine", ("mifa", 0.0)), Story(10.0))
    longer = Selection("ci", "released", rounds=40).cell("digits", "sine", ("fedavg", 0.0))
    assert Measurements(kept(store.path, "ci-released")).scores(CELL, "test_accuracy") == pytest.approx({3: 53, 4: 54})
    put(store, longer, Story(90.0))
    measured = Measurements(kept(store.path, "ci-released"))
    assert measured.scores(CELL, "test_accuracy") == pytest.approx({3: 90})
    assert [run.cell.rounds for run in measured.of(CELL)] == [40]


def test_a_run_stopped_just_before_the_end_counts(store):
    def length(rounds):
        return Selection("ci", "released", rounds=rounds).cell("digits", "sine", ("fedavg", 0.0))

    put(store, length(400), Story(80.0), seed=4)
    for seed in (3, 4):
        put(store, length(398), Story(70.0), seed)
    put(store, length(390), Story(60.0), seed=6)
    measured = Measurements(kept(store.path, "ci-released"))
    assert measured.scores(CELL, "test_accuracy") == pytest.approx({3: 70, 4: 80})
    assert [run.cell.seed for run in measured.of(CELL)] == [4]  # of one length, for curves
    assert remarks([CELL], measured) == [
        "digits: 398 rounds instead of 10 in 1 of 2 runs", "digits: 400 rounds instead of 10 in 1 of 2 runs",
    ]  # fmt: skip


@pytest.mark.parametrize(("rounds", "every", "aliased"), [(20, 5, False), (500, 10, True)])
def test_curves_in_turns_of_groups_say_in_which_phase_they_are_judged(store, rounds, every, aliased):
    put(store, Selection("ci", "released", rounds=rounds).cell("digits", "periodic-static", ("mifa", 0.0)), Story(60.0))
    (note,) = RECIPES["fig7"].report(CI, Measurements(kept(store.path, "ci-released"))).notes
    assert note.startswith(f"digits: judged every {every} rounds, in the last 10 every 1")
    assert ("same phase" in note) == aliased


def test_a_figure_shows_all_seeds_of_every_point(store):
    """Also where one of them has more than another."""
    for p, seeds in ((0.1, (3, 4, 6)), (0.3, (4,))):
        line = CI.cell("digits", "sine", ("fedavg", 0.0), p=p, gamma=0.5)
        for seed in seeds:
            put(store, line, Story(10.0 * seed), seed)
    (chart,) = RECIPES["fig3"].report(CI, Measurements(kept(store.path, "ci-released"))).charts.values()
    rows = [row for row in csv.DictReader(io.StringIO(chart.data)) if row["y_name"].startswith("test")]
    assert [(row["x"], row["seeds"], float(row["mean"])) for row in rows] == [
        ("0.1", "3", pytest.approx(130 / 3)),
        ("0.3", "1", 40.0),
    ]


def test_rounds_that_were_never_enough_are_infinite(store):
    put(store, CELL, Story(50.0, reached={30: 4}))
    measured = Measurements(kept(store.path, "ci-released"))
    assert measured.rounds_to(CELL, 0.3) == {3: 4}
    assert measured.rounds_to(CELL, 0.6) == {3: float("inf")}


def files_of(store):
    return {path.suffix: path for path in (store.path / "cells" / "ci-released").iterdir()}


def test_other_settings_are_refused_with_what_differs(store):
    cell = put(store, CELL, Story(50.0))
    text = files_of(store)[".toml"].read_text()
    assert "\nalpha = 0.1\n" in text
    files_of(store)[".toml"].write_text(
        text.replace("[config.task]\n", "[config.task]\ncrop = 2\n", 1).replace("crop = 0\n", "")
    )
    with pytest.raises(FedsweError, match=r"measured with other settings \(task.crop = 2 there, 0 here\): delete it"):
        store.finished(cell.grid_cell())
    with pytest.raises(FedsweError, match="measured with other settings"):  # reports do not mix them in either
        kept(store.path, "ci-released")


def test_where_and_how_fast_it_was_measured_does_not_matter(store):
    cell = put(store, CELL, Story(50.0))
    text = files_of(store)[".toml"].read_text()
    text = text.replace('precision = "fp32"', 'precision = "bf16"').replace('device = "cpu"', 'device = "cuda"')
    files_of(store)[".toml"].write_text(text)
    assert store.finished(cell.grid_cell())


@pytest.mark.parametrize("content", ["", "[cell]\n", "half a li", None])
def test_a_damaged_description_says_what_to_delete(store, content):
    cell = put(store, CELL, Story(50.0))
    path = files_of(store)[".toml"]
    path.unlink() if content is None else path.write_text(content)
    for look in (lambda: store.finished(cell.grid_cell()), lambda: kept(store.path, "ci-released")):
        with pytest.raises(FedsweError, match="is damaged: delete") as raised:
            look()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text.split("\n")[0] + "\n",
        lambda text: text.rsplit("\n", 2)[0] + "\n",  # the last row is gone
        lambda text: text.replace("0.5", "0.x"),
    ],
)
def test_a_damaged_history_says_what_to_delete(store, damage):
    put(store, CELL, Story(50.0))
    path = files_of(store)[".csv"]
    path.write_text(damage(path.read_text()))
    with pytest.raises(FedsweError, match="is damaged: delete both"):
        kept(store.path, "ci-released")
