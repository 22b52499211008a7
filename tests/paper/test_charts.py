"""The chart over k marks what was never reached, and says so where nothing was."""

import numpy as np
from matplotlib.figure import Figure

from fedswe.charts import Chart, Panel, Series
from fedswe_paper.recipes.periodic import against_k

INF = np.inf


def drawn(chart: Chart) -> Figure:
    figure = Figure(figsize=chart.size, layout="constrained")
    chart.draw(figure)
    figure.canvas.draw()
    return figure


def test_against_k_marks_what_was_never_reached():
    series = Series("FedSWE", [0, 10, 100], [[INF, 500.0, 300.0], [900.0, 520.0, 340.0]])
    axes = drawn(against_k([Panel("(a)", [series], "rounds to 40 %", x="k")], clients=100)).axes[0]
    points, never = axes.get_lines()[0], [line for line in axes.get_lines() if line.get_marker() == "^"]
    np.testing.assert_array_equal(points.get_xdata(), [0, 10, 100])
    np.testing.assert_array_equal(points.get_ydata(), [np.nan, 510, 320])
    assert [line.get_xdata().tolist() for line in never] == [[0]]
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] < 0 < 100 < axes.get_xlim()[1]


def test_a_panel_without_any_number_has_no_scale():
    series = Series("FedSWE", [0, 10], [[INF, INF]])
    axes = drawn(against_k([Panel("(a)", [series], "rounds to 40 %", x="k")], clients=100)).axes[0]
    assert not len(axes.get_yticks())
    assert [text.get_text() for text in axes.texts] == ["never reached for any k", " k = m"]


def test_against_k_marks_what_diverged_and_leaves_a_gap():
    series = Series("FedSWE", [0, 10, 100, 500], [[40.0, 60.0, np.nan, 55.0]])
    axes = drawn(against_k([Panel("(a)", [series], "test accuracy, %", x="k")], clients=100)).axes[0]
    points, lost = axes.get_lines()[0], [line for line in axes.get_lines() if line.get_marker() == "x"]
    np.testing.assert_array_equal(points.get_ydata(), [40, 60, np.nan, 55])
    assert [line.get_xdata().tolist() for line in lost] == [[100]]
