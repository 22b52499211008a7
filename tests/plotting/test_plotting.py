"""Charts show mean and std over seeds, say what is missing, and give the same files every time."""

import csv
import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedswe.charts import Chart, Panel, Series, bars, curves, dots, late_range, spread
from fedswe.plotting import WIDTHS, render, save

NAN, INF = np.nan, np.inf


def drawn(chart: Chart) -> Figure:
    figure = Figure(figsize=chart.size, layout="constrained")
    chart.draw(figure)
    figure.canvas.draw()
    return figure


def said(axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def test_mean_and_std_over_the_seeds_there_are():
    at = spread(Series("a", [0, 1, 2, 3], [[1.0, 2.0, NAN, NAN], [3.0, NAN, NAN, INF], [5.0, 6.0, NAN, 4.0]]))
    np.testing.assert_allclose(at.mean, [3, 4, NAN, INF])
    np.testing.assert_allclose(at.low[:2], [1, 4 - np.sqrt(8)])
    np.testing.assert_allclose(at.high[:2], [5, 4 + np.sqrt(8)])
    assert at.seeds.tolist() == [3, 2, 0, 2]
    alone = spread(Series("a", [0, 1], [[1.0, 2.0]]))
    np.testing.assert_array_equal(alone.low, alone.high)


def test_logarithmic_panels_average_logarithms():
    at = spread(Series("a", [0, 1], [[1e-2, 0.0], [1e2, 5.0]]), log=True)
    np.testing.assert_allclose(at.mean, [1.0, 5.0])  # the zero has no logarithm
    assert (at.low[0] > 0, at.high[0] > 1e2) == (True, True)
    assert at.seeds.tolist() == [2, 1]


def test_curves_draw_the_mean_and_share_a_legend():
    series = [Series("fedswe", [0, 10], [[1.0, 3.0], [3.0, 5.0], [2.0, 4.0]]), Series("fedavg", [0, 10], [[0.0, 1.0]])]
    chart = curves([Panel("a", series, "accuracy, %"), Panel("b", series[:1], "accuracy, %"), Panel("c", [], "y")])
    figure = drawn(chart)
    lines = figure.axes[0].get_lines()
    np.testing.assert_array_equal(lines[0].get_ydata(), [2, 4])
    assert lines[0].get_color() == figure.axes[1].get_lines()[0].get_color()
    assert [text.get_text() for text in figure.legends[0].texts] == ["fedswe", "fedavg"]
    assert "band: one standard deviation over 1 to 3 seeds" in figure.get_supxlabel()
    empty = figure.axes[2]
    assert (said(empty), len(empty.get_xticks()), len(empty.get_yticks())) == (["not measured"], 0, 0)


def test_legend_and_caption_lie_inside_the_figure():
    panel = Panel("server", [Series(f"algorithm_{i}", [0, 9], [[0, 0.9 + i / 1e4]]) for i in range(14)], "accuracy")
    for width in WIDTHS.values():
        chart = curves([panel, panel], width=width, note="digits, 30 clients, sine availability, 200 rounds. " * 6)
        figure = render(chart.draw, chart.size)
        for box in (figure.legends[0].get_window_extent(), figure._supxlabel.get_window_extent()):
            assert figure.bbox.x0 <= box.x0 < 0.3 * figure.bbox.x1
            assert 0.7 * figure.bbox.x1 < box.x1 <= figure.bbox.x1
        assert len(figure.legends[0].texts) == 14


def test_the_data_of_a_chart_are_what_it_shows():
    chart = curves([Panel("(a)", [Series("fedswe", [0, 10], [[1.0, NAN], [3.0, NAN]])], "accuracy, %")])
    assert [list(row.values()) for row in csv.DictReader(io.StringIO(chart.data))] == [
        ["(a)", "fedswe", "round", "0", "accuracy, %", "2", "0.585786", "3.41421", "2"],
        ["(a)", "fedswe", "round", "10", "accuracy, %", "", "", "", "0"],
    ]


def test_bars_stand_at_their_group():
    panel = Panel("(a)", [Series("γ = 0.1", [0.1, 1], [[70.0, 80.0]]), Series("γ = 0.5", [1], [[60.0]])], "%", x="p")
    axes = drawn(bars([panel])).axes[0]
    heights = {round(bar.get_x() + bar.get_width() / 2, 6): bar.get_height() for bar in axes.patches}
    assert heights == {-0.2: 70, 0.8: 80, 1.2: 60}
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.1", "1"]


@pytest.mark.parametrize("count", [1, 9, 32])
def test_every_label_has_its_own_colour_and_line_style(count):
    panel = Panel("", [Series(f"s{i}", [0, 1], [[0.0, 1.0]]) for i in range(count)], "y")
    lines = drawn(curves([panel])).axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}) == count
    family = [line.get_color() for line in drawn(curves([panel], ordered=True)).axes[0].get_lines()]
    assert len(set(family)) == count


def test_rounds_are_whole_numbers():
    axes = drawn(curves([Panel("", [Series("a", [0, 5], [[0.0, 1.0]])], "rounds to 40 %")])).axes[0]
    for ticks in (axes.get_xticks(), axes.get_yticks()):
        np.testing.assert_array_equal(ticks, np.round(ticks))


def test_the_late_range_leaves_out_the_first_quarter():
    x = list(range(0, 101, 10))
    late = [0.1, 0.3, 0.5, *np.linspace(0.9, 0.94, 8)]
    panels = [Panel("a", [Series("a", x, [late])], "y"), Panel("b", [Series("a", x, [[*late[:-1], 0.88]])], "y")]
    np.testing.assert_allclose(late_range(panels), [0.877, 0.943])
    few = [0.1, *np.linspace(0.8, 0.96, 4)]  # a curve of few points is shown as a whole
    np.testing.assert_allclose(late_range([Panel("", [Series("a", range(5), [few])], "y")]), [0.057, 1.003])


@pytest.mark.parametrize("values", [[1.0, NAN, INF], [0.0, 0.0, 0.0], [NAN, NAN, NAN]])
@pytest.mark.parametrize("log", [False, True])
def test_runs_that_diverged_are_drawn(values, log):
    panel = Panel("server", [Series("a", [0, 1, 2], [values])], "loss", log=log)
    assert np.isfinite(drawn(curves([panel], y_range=late_range([panel]))).axes[0].get_ylim()).all()
    assert np.isfinite(drawn(dots(["a", "b", "c"], panel)).axes[0].get_xlim()).all()


def test_a_panel_says_how_many_seeds_of_a_curve_diverged():
    series = [
        Series("a", [0, 1, 2], [[1.0, 2.0, INF], [1.0, 4.0, 5.0]]),
        Series("b", [0, 1, 2], [[1.0, INF, INF]]),
        Series("c", [0, 1, 2], [[NAN, NAN, NAN]]),
    ]
    axes = drawn(curves([Panel("", series, "y")])).axes[0]
    assert said(axes) == ["a: 1 of 2 diverged\nb: diverged\nc: no finite values"]
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [1, 3, NAN])
    assert said(drawn(curves([Panel("", series[2:], "y")])).axes[0])[0] == "nothing to draw"


def test_dots_are_seeds_and_means_in_rows():
    panel = Panel("", [Series.by_x("server", [0, 1, 2], [[90.0, 92.0], [80.0], [70.0, INF]])], "", x="accuracy, %")
    axes = drawn(dots(["fedswe", "fedavg", "mifa"], panel)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fedswe", "fedavg", "mifa"]
    assert axes.yaxis_inverted()
    (filled,) = (line for line in axes.get_lines() if line.get_label() == "server")
    np.testing.assert_array_equal(filled.get_xdata(), [91, 80])
    opened = [line.get_xdata() for line in axes.get_lines() if line.get_markerfacecolor() == "none"]
    np.testing.assert_array_equal(opened, [[90, 80, NAN], [92, NAN, NAN]])  # a row with a diverged seed has no mean
    assert said(axes) == ["server: 1 of 2 diverged"]


def test_any_text_can_be_a_name(tmp_path):
    series = [Series(r"$\frac{1", [0, 1], [[0.0, INF]]), Series("名前", [0, 1], [[0.0, 1.0]])]
    for chart in (
        curves([Panel("server", series, "y")], note=r"$\frac{1"),
        dots([r"$\frac{1", "名前"], Panel("", series, "")),
    ):
        assert len(chart.save(tmp_path, "a")) == 3


# files -------------------------------------------------------------------------------------------------------
def test_files_are_whole_and_the_same_every_time(tmp_path):
    chart = curves([Panel("(a)", [Series("fedswe", [0, 1], [[1.0, 2.0], [2.0, 4.0]])], "accuracy, %")])
    paths = chart.save(tmp_path, "fig7")
    save(chart.draw, chart.size, tmp_path / "fig7.pdf")
    assert {path.name for path in tmp_path.iterdir()} == {f"fig7.{end}" for end in ("csv", "png", "svg", "pdf")}
    before = [path.read_bytes() for path in (*paths, tmp_path / "fig7.pdf")]
    save(chart.draw, chart.size, *chart.save(tmp_path, "fig7")[:2], tmp_path / "fig7.pdf")
    assert [path.read_bytes() for path in (*paths, tmp_path / "fig7.pdf")] == before
    assert b"/Type3" not in before[-1]  # which publishers refuse
