"""Charts show mean and std over seeds, say what is missing, and give the same files every time."""

import csv
import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedswe.errors import FedsweError
from fedswe_paper.charts import Chart, Panel, Series, against_k, bars, curves, spread

NAN, INF = np.nan, np.inf


def drawn(chart: Chart) -> Figure:
    figure = Figure(figsize=chart.size, layout="constrained")
    chart.draw(figure)
    figure.canvas.draw()
    return figure


def records(chart: Chart) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(chart.data)))


def test_mean_and_std_over_the_seeds_there_are():
    at = spread(Series("a", [0, 1, 2, 3], [[1.0, 2.0, NAN, NAN], [3.0, NAN, NAN, INF], [5.0, 6.0, NAN, 4.0]]))
    np.testing.assert_allclose(at.middle, [3, 4, NAN, INF])
    np.testing.assert_allclose(at.low[:2], [1, 4 - np.sqrt(8)])
    np.testing.assert_allclose(at.high[:2], [5, 4 + np.sqrt(8)])
    assert at.seeds.tolist() == [3, 2, 0, 2]


def test_one_seed_has_no_spread():
    at = spread(Series("a", [0, 1], [[1.0, 2.0]]))
    np.testing.assert_array_equal(at.low, at.high)


def test_logarithmic_panels_average_logarithms():
    at = spread(Series("a", [0, 1], [[1e-2, 0.0], [1e2, 5.0]]), log=True)
    np.testing.assert_allclose(at.middle, [1.0, 5.0])  # the zero has no logarithm
    assert (at.low[0] > 0, at.high[0] > 1e2) == (True, True)
    assert at.seeds.tolist() == [2, 1]


def test_curves_draw_the_mean_and_share_one_legend():
    series = [Series("fedswe", [0, 10], [[1.0, 3.0], [3.0, 5.0]]), Series("fedavg", [0, 10], [[0.0, 1.0]])]
    chart = curves(
        [Panel("(a)", series, "accuracy, %"), Panel("(b)", series[:1], "accuracy, %"), Panel("(c)", [], "y")]
    )
    figure = drawn(chart)
    lines = figure.axes[0].get_lines()
    np.testing.assert_array_equal(lines[0].get_ydata(), [2, 4])
    assert lines[0].get_color() == figure.axes[1].get_lines()[0].get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fedswe", "fedavg"]
    assert all(axes.get_legend() is None for axes in figure.axes)
    assert [text.get_text() for text in figure.axes[2].texts] == ["not measured"]


def test_the_data_of_a_chart_are_what_it_shows():
    chart = curves([Panel("(a)", [Series("fedswe", [0, 10], [[1.0, NAN], [3.0, NAN]])], "accuracy, %")])
    assert records(chart) == [
        {"panel": "(a)", "label": "fedswe", "x_name": "round", "x": "0", "y_name": "accuracy, %",
         "mean": "2", "low": "0.585786", "high": "3.41421", "seeds": "2"},
        {"panel": "(a)", "label": "fedswe", "x_name": "round", "x": "10", "y_name": "accuracy, %",
         "mean": "", "low": "", "high": "", "seeds": "0"},
    ]  # fmt: skip


def test_bars_stand_at_their_group():
    panel = Panel("(a)", [Series("γ = 0.1", [0.1, 1], [[70.0, 80.0]]), Series("γ = 0.5", [1], [[60.0]])], "%", x="p")
    axes = drawn(bars([panel])).axes[0]
    heights = {round(bar.get_x() + bar.get_width() / 2, 6): bar.get_height() for bar in axes.patches}
    assert heights == {-0.2: 70, 0.8: 80, 1.2: 60}
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.1", "1"]


def test_against_k_sorts_k_and_marks_what_was_never_reached():
    series = Series("FedSWE", [100, 0, 10], [[300.0, INF, 500.0], [340.0, 900.0, 520.0]])
    axes = drawn(against_k([Panel("(a)", [series], "rounds to 40 %", x="k")], clients=100)).axes[0]
    points, never = axes.get_lines()[0], [line for line in axes.get_lines() if line.get_marker() == "^"]
    np.testing.assert_array_equal(points.get_xdata(), [10, 100])
    np.testing.assert_array_equal(points.get_ydata(), [510, 320])
    assert [line.get_xdata().tolist() for line in never] == [[0]]
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] < 0 < 100 < axes.get_xlim()[1]


@pytest.mark.parametrize("count", [1, 6, 7, 13])
def test_every_label_has_its_own_colour_as_far_as_there_are_colours(count):
    panel = Panel("", [Series(f"s{i}", [0, 1], [[0.0, 1.0]]) for i in range(count)], "y")
    colours = [line.get_color() for line in drawn(curves([panel])).axes[0].get_lines()]
    assert len(set(colours)) == min(count, 10)
    family = [line.get_color() for line in drawn(curves([panel], ordered=True)).axes[0].get_lines()]
    assert len(set(family)) == count


def test_files_are_whole_and_the_same_every_time(tmp_path):
    chart = curves([Panel("(a)", [Series("fedswe", [0, 1], [[1.0, 2.0], [2.0, 4.0]])], "accuracy, %")])
    paths = chart.save(tmp_path, "fig7")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig7.csv", "fig7.png", "fig7.svg"]
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in chart.save(tmp_path, "fig7")] == before


@pytest.mark.parametrize("seeds", [[1.0, 2.0], [[1.0, 2.0, 3.0]], np.zeros((0, 2))])
def test_a_series_that_does_not_fit_its_x_is_refused(seeds):
    with pytest.raises(FedsweError, match="give one row per seed with 2 values"):
        Series("a", [0, 1], seeds)
