"""The fair table: every method gets the same rates to choose from, chosen on held-out data and never on test data."""

import pytest

from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes import RECIPES
from fedswe_paper.recipes.fair import OUTPUTS, SETTINGS, tried, tuned
from fedswe_paper.selection import Selection
from tests.paper.handmade import Story, told

SMALL = Selection("small", "released")
FEDAVG = tried(SMALL.cell("fashion_mnist", "sine", ("fedavg", 0.0)))


def measured(test, held_out, seeds=(3, 4)):
    """The rates in order, with these scores."""
    return [
        told(cell, Story(a, held_out=b), seed)
        for cell, a, b in zip(FEDAVG, test, held_out, strict=True)
        for seed in seeds
    ]


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_rate_is_chosen_on_held_out_data(output):
    for best in range(4):
        held_out = [70.0 + (rate == best) for rate in range(4)]
        test = [80.0 - 10 * (rate == best) for rate in range(4)]  # the worst on test data
        assert tuned(FEDAVG, Measurements(measured(test, held_out)), output) == FEDAVG[best]


def test_no_choice_before_every_rate_has_the_same_seeds():
    runs = measured([80.0] * 4, [1.0, 2.0, 3.0, 4.0])
    assert tuned(FEDAVG, Measurements(runs), "server") == FEDAVG[3]
    assert tuned(FEDAVG, Measurements(runs[:-1]), "server") is None
    assert tuned(FEDAVG, Measurements(runs[:-2]), "server") is None
    assert tuned(FEDAVG, Measurements([]), "server") is None


def test_every_method_has_the_same_effort_and_the_same_models():
    cells = RECIPES["fair-table"].lines(SMALL)
    efforts = {}
    for cell in cells:
        efforts.setdefault((cell.algorithm, cell.k, cell.reading), []).append(cell.rate)
        assert set(OUTPUTS) <= set(cell.experiment().evaluate.model)
        assert cell.experiment().task.hold_out == 0.1
    rates = {tuple(10 * r if name == "gfedavg" else r for r in tried) for (name, *_), tried in efforts.items()}
    assert rates == {(0.02, 0.05, 0.1, 0.2) * len(SETTINGS)}
    assert len(efforts) == 12


def test_the_report_shows_test_accuracy_at_the_chosen_rate():
    runs = measured([81.0, 82.0, 83.0, 84.0], [60.0, 65.0, 61.0, 62.0])
    table = RECIPES["fair-table"].report(SMALL, Measurements(runs)).tables[0]
    (line,) = [line for line in table.lines if line.keys[0] == "FedAvg, active"]
    assert line.keys[1] == "0.05, 0.05, 0.05"
    assert [value.mean for value in line.ours] == pytest.approx([82.0] * 3)
    assert all(value is None for line in table.lines if line.keys[0] != "FedAvg, active" for value in line.ours)
