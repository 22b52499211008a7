"""What has been measured of each table and figure, and the command for the rest."""

from dataclasses import replace

from fedswe_paper.coverage import coverage, report
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes import RECIPES
from fedswe_paper.selection import Selection
from tests.paper.handmade import FULL, as_printed, told, world


def test_runs_are_counted_by_length_and_divergence():
    lines = RECIPES["fig7"].lines(FULL)
    first, second, *_ = [line for line in lines if line.dynamics == "periodic-static"]
    short = replace(second, rounds=5000)
    measured = Measurements(
        [
            *(told(first, as_printed(first), seed) for seed in (3, 4, 6)),
            told(replace(first, rounds=5000), as_printed(first), 3),  # the longer run counts
            told(short, replace(as_printed(short), nan_from=4000), 4),
        ]
    )
    found = coverage(FULL, measured).query("recipe == 'fig7' and dynamics == 'periodic-static'")
    assert found.iloc[0].tolist()[4:] == [
        24, 3, 1, 1, "(3, 4, 6 in part)", "5000, 10000 of 10000",
        "fedswe reproduce fig7 --scale full --dataset svhn --dynamics periodic-static --device cuda",
    ]  # fmt: skip


def test_seeds_that_only_some_lines_have_are_marked():
    measured = world(without=lambda c: c.seed != 3 and c.gamma == 0.5, recipes=["fig3", "alpha-table"])
    seeds = coverage(FULL, measured).query("data == 'svhn'").set_index("recipe")["seeds"]
    assert seeds["fig3"] == "3 (4, 6 in part)"
    assert seeds["alpha-table"] == "3, 4, 6"


def test_the_page_has_every_table_and_figure_of_the_paper():
    measured = world(without=lambda c: c.dataset == "cinic10")
    page = report(FULL, measured)
    rows = page.sheets["coverage"]
    figures, tables = {f"Figure {n}" for n in range(1, 17)}, {f"Table {n}" for n in range(1, 10)}
    assert set(rows["in_the_paper"]) == figures | tables | {recipe.number for recipe in RECIPES.values()}
    main = rows.query("recipe == 'main-table' and dynamics == 'sine'").set_index("data")
    assert main.loc["svhn", ["needed", "measured", "missing"]].tolist() == [30, 30, "nothing"]
    assert main.loc["cinic10", "missing"] == (
        "fedswe reproduce main-table --scale full --dataset cinic10 --dynamics sine --device cuda"
    )
    assert all(missing in page.text for missing in rows["missing"])
    assert "miss 90 runs of 180,000 rounds" in page.said  # those of Table 2, which Table 7 shares


def test_other_scales_and_profiles_have_their_own_command():
    missing = coverage(Selection("small", "paper"), Measurements([])).set_index("recipe")["missing"]
    assert missing["fig3"] == (
        "fedswe reproduce fig3 --scale small --profile paper --dataset fashion_mnist --dynamics sine"
    )
