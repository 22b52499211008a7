"""Lines that were run for several lengths: a comparison takes runs of one length, and says which."""

import math
from dataclasses import replace

import pytest

from fedswe_paper.claims import report
from fedswe_paper.margin import pooled
from fedswe_paper.measurements import Measurements, accuracy
from fedswe_paper.predicates import Place
from fedswe_paper.recipes import RECIPES
from tests.paper.handmade import FULL, SEEDS, Story, as_printed, told, verdict_on

TURNS = ("svhn", "periodic-static")
K100, KNOWN, FEDAVG = (
    FULL.cell(*TURNS, row) for row in (("fedswe", 100.0), ("fedavg_known", 0.0), ("fedavg", 0.0))
)  # of 10,000 rounds


def shorter(cell):
    return replace(cell, rounds=5000)


def runs_of(cell, final=None, spread=1.0):
    """All seeds, as printed or with another accuracy at the end."""
    story = as_printed(cell) if final is None else replace(as_printed(cell), final=final)
    return [told(cell, story, seed, spread * extra) for seed, extra in SEEDS.items()]


ALL = tuple(SEEDS)


@pytest.mark.parametrize(
    ("rows", "rounds"),
    [
        ([{5000: ALL}, {5000: ALL}], 5000),
        ([{5000: ALL, 10000: ALL}, {5000: ALL}], 5000),
        ([{5000: ALL, 10000: ALL}, {10000: ALL, 5000: ALL}], 10000),
        ([{5000: ALL, 10000: ALL}, {}], 10000),  # nothing to agree with
        ([{1998: (4,), 2000: (3,)}, {2000: ALL}, {1998: ALL}], 2000),  # up to 1 % shorter
        ([{1900: ALL}, {2000: ALL}], 2000),  # no common one: the others are missing
        ([{}, {}], 0),
        ([{5000: ALL, 10000: (3,)}, {5000: ALL, 10000: (4,)}], 5000),  # no seed has 10,000 rounds in both
        ([{5000: ALL, 10000: (3,)}, {5000: ALL, 10000: (3,)}], 5000),  # three seeds are more than one
        ([{5000: (3, 4), 10000: (4, 6)}, {5000: (3, 4), 10000: (4, 6)}], 10000),  # as many: the longest
        ([{5000: ALL, 10000: (3,)}], 5000),  # also of one row
        ([{5000: (3,)}, {5000: (4,)}, {10000: (6,)}], 5000),  # no common seed: the length that most rows have
    ],
)
def test_rows_are_compared_at_the_length_with_the_most_common_seeds(rows, rounds):
    cells = [K100, KNOWN, FEDAVG][: len(rows)]
    runs = [
        told(replace(cell, rounds=length), Story(50.0), seed)
        for cell, row in zip(cells, rows, strict=True)
        for length, seeds in row.items()
        for seed in seeds
    ]
    measured = Measurements(runs)
    assert {cell.rounds for cell in measured.alike(cells)} == {rounds}
    assert {cell.rounds for cell in measured.alike(cells[::-1])} == {rounds}


def test_the_longest_runs_are_meant_unless_the_cell_names_its_rounds():
    measured = Measurements([*runs_of(shorter(K100), 60.0), told(K100, as_printed(K100))])
    assert measured.scores(K100, "test_accuracy") == pytest.approx({3: 82.0})
    assert measured.scores(shorter(K100), "test_accuracy") == pytest.approx({s: 60 + by for s, by in SEEDS.items()})
    assert measured.of(replace(K100, rounds=7000)) == []
    assert [run.cell.rounds for run in measured.of(shorter(K100))] == [5000] * 3


def test_a_margin_takes_runs_of_one_length_and_says_which():
    """After 10,000 rounds k = 100 is far ahead of what known p has after 5000; after 5000 it is behind."""
    runs = [*runs_of(K100, 99.0), *runs_of(shorter(K100), 60.0), *runs_of(FEDAVG), *runs_of(shorter(KNOWN))]
    others = [FULL.cell(*TURNS, (name, 0.0)) for name in ("gfedavg", "fedau", "mifa", "fedvarp")]
    runs += [run for cell in others for run in runs_of(shorter(cell), 30.0)]
    there = verdict_on("k100-beats-baselines", Measurements(runs))
    margins = {margin.what.split(" minus ")[1]: margin for margin in there.findings[0].margins}
    known, fedavg = margins["FedAvg, known p (server)"], margins["FedAvg, active (server)"]
    assert (known.rounds, known.of_paper, known.mean) == (5000, 10_000, pytest.approx(60.0 - 65.0))
    assert (fedavg.rounds, fedavg.of_paper, fedavg.mean) == (10_000, 10_000, pytest.approx(99.0 - 50.0))
    assert there.status == "does not hold"


@pytest.mark.parametrize("longer", [{"k100": 3, "known": 4}, {"k100": 3, "known": 3}])
def test_one_longer_run_does_not_replace_three_seeds(longer):
    k100, known = (replace(cell, dataset="cifar10") for cell in (K100, KNOWN))
    runs = [*runs_of(shorter(k100), 60.0), *runs_of(shorter(known), 50.0)]
    runs += [told(k100, Story(99.0), longer["k100"]), told(known, Story(10.0), longer["known"])]
    measured = Measurements(runs)
    assert report(FULL, measured).said.startswith("shorter runs ")
    there = verdict_on("k100-beats-known-cifar10", measured)
    (margin,) = there.findings[0].margins
    assert (margin.seeds, margin.rounds, margin.mean) == (ALL, 5000, pytest.approx(10.0))
    assert there.status == "holds"


def test_rows_without_a_common_length_are_not_compared():
    measured = Measurements(
        [*runs_of(replace(K100, dataset="cifar10")), *runs_of(shorter(replace(KNOWN, dataset="cifar10")))]
    )
    assert verdict_on("k100-beats-known-cifar10", measured).status == "not yet measured"


def test_a_ranking_has_one_length():
    cells = RECIPES["fig8"].lines(FULL)[:7]
    assert [(cell.dynamics, cell.k) for cell in cells][::6] == [("periodic-static", 0), ("periodic-static", 500)]
    runs = [run for cell in cells for run in runs_of(shorter(cell))]
    runs += [run for cell in cells if cell.k in (0, 500) for run in runs_of(cell, 95.0)]
    there = verdict_on("accuracy-peaks-near-m", Measurements(runs))
    assert there.status == "holds"
    assert {margin.rounds for margin in there.findings[0].margins} == {5000}
    assert "k = 0 55.1, " in there.findings[0].note


def test_a_ranking_keeps_its_seeds_where_rows_have_runs_of_nearly_one_length():
    """k = 10 and 100 also have seed 6, of 9950 rounds; the margin between these two is not to use it either."""
    cells = RECIPES["fig8"].lines(FULL)[:7]
    runs = [run for cell in cells for run in runs_of(cell) if run.cell.seed != 6]
    runs += [told(replace(cell, rounds=9950), as_printed(cell), 6) for cell in cells if cell.k in (10, 100)]
    there = verdict_on("accuracy-peaks-near-m", Measurements(runs))
    assert {margin.seeds for margin in there.findings[0].margins} == {(3, 4)}
    assert there.findings[0].note.endswith("(seeds 3, 4)")


def test_a_run_that_is_a_little_shorter_is_in_no_curve_and_so_in_no_ranking_of_rounds():
    cells = RECIPES["fig9"].lines(FULL)[:7]
    runs = [run for cell in cells for run in runs_of(cell) if cell.k != 10 or run.cell.seed != 6]
    runs += [told(replace(cell, rounds=9950), as_printed(cell), 6) for cell in cells if cell.k == 10]
    notes = {name: RECIPES[name].report(FULL, Measurements(runs)).notes for name in ("fig8", "fig9")}
    assert "svhn, periodic-static: seeds 3, 4, 6, which every k has" in notes["fig8"]
    assert "svhn, periodic-static: seeds 3, 4, which every k has" in notes["fig9"]


def test_other_swings_beside_a_margin_have_its_length():
    k0 = FULL.cell(*TURNS, ("fedswe", 0.0))
    short, long = Story(60.0, swing=2.0), Story(60.0, swing=9.0)
    measured = Measurements([told(shorter(K100), short), told(K100, long), told(shorter(k0), short)])
    note = Place(FULL, measured, *TURNS, "server").other_swings([K100, k0])
    assert note.endswith("FedSWE, k = 100 (server) 2.0 and 2.0, FedSWE, k = 0 (server) 2.0 and 2.0")


def test_a_spread_is_pooled_over_rows_of_the_same_length():
    runs = [
        *runs_of(shorter(KNOWN)),
        *runs_of(shorter(FEDAVG)),
        *runs_of(FEDAVG, spread=9.0),
        *runs_of(K100, spread=9.0),
    ]
    measured = Measurements(runs)
    assert pooled(measured, KNOWN, accuracy()).freedom == 4
    assert pooled(measured, K100, accuracy()).std == pytest.approx(9 * pooled(measured, KNOWN, accuracy()).std)


def test_a_method_lends_its_spread_at_another_length_before_other_methods_do():
    """k = 100 has one short run, and varies nine times as much in long ones as k = 10 in short ones."""
    k0, k10 = (FULL.cell(*TURNS, ("fedswe", k)) for k in (0.0, 10.0))
    single = [told(shorter(k0), Story(50.0)), told(shorter(K100), Story(60.0))]
    measured = Measurements([*single, *runs_of(K100, spread=9.0), *runs_of(shorter(k10))])
    other, own = (pooled(measured, shorter(K100), accuracy(), of_method) for of_method in (False, True))
    assert (own.std, own.freedom) == (pytest.approx(9 * other.std), 2)
    (margin,) = [found.deciding for found in verdict_on("k100-beats-k0-in-turns", measured).findings]
    assert (margin.rounds, margin.error) == (5000, pytest.approx(math.hypot(own.std, other.std)))


def test_pages_do_not_mix_lengths():
    cells = RECIPES["fig7"].lines(FULL)[:8]
    measured = Measurements([run for cell in cells for run in runs_of(shorter(cell), 50.0)] + runs_of(K100, 82.0))
    page = RECIPES["fig7"].report(FULL, measured)
    final = {table.title: table for table in page.tables if "periodic-static" in table.title}
    assert list(final) == [f"Final test accuracy, svhn, periodic-static, {rounds} rounds" for rounds in (10_000, 5000)]
    long, short = ([line.ours[0] is not None for line in table.lines] for table in final.values())
    assert (sum(long), sum(short)) == (1, 8)
    assert any("svhn: 5000 rounds instead of 10000" in note for note in list(final.values())[1].notes)
    swept = [run for cell in RECIPES["fig8"].lines(FULL)[:7] for run in runs_of(shorter(cell), 50.0)]
    by_k = RECIPES["fig8"].report(FULL, Measurements(swept + runs_of(K100, 82.0)))
    assert "svhn: 5000 rounds instead of 10000" in by_k.notes
    assert all("of 7" not in note for note in by_k.notes)


def test_shorter_runs_are_counted_where_others_are_as_long_as_the_papers():
    (note,) = [n for n in RECIPES["fig6"].report(FULL, Measurements(runs_of(shorter(K100)))).notes if "instead" in n]
    assert note == "svhn: 5000 rounds instead of 10000"
    measured = Measurements(runs_of(K100) + runs_of(shorter(KNOWN)))
    assert "\n- svhn: 5000 rounds instead of 10000 in 3 of 6 runs\n" in report(FULL, measured).text
