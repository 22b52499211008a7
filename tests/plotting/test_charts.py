"""Charts show mean and std over seeds, say what is missing, and give the same files every time."""

import csv
import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedswe.errors import FedsweError
from fedswe.plotting import (
    WIDTHS,
    Chart,
    Panel,
    Series,
    bars,
    curves,
    dots,
    late_range,
    render,
    save,
    spread,
)

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
    np.testing.assert_allclose(at.mean, [3, 4, NAN, INF])
    np.testing.assert_allclose(at.low[:2], [1, 4 - np.sqrt(8)])
    np.testing.assert_allclose(at.high[:2], [5, 4 + np.sqrt(8)])
    assert at.seeds.tolist() == [3, 2, 0, 2]


def test_one_seed_has_no_spread():
    at = spread(Series("a", [0, 1], [[1.0, 2.0]]))
    np.testing.assert_array_equal(at.low, at.high)


def test_logarithmic_panels_average_logarithms():
    at = spread(Series("a", [0, 1], [[1e-2, 0.0], [1e2, 5.0]]), log=True)
    np.testing.assert_allclose(at.mean, [1.0, 5.0])  # the zero has no logarithm
    assert (at.low[0] > 0, at.high[0] > 1e2) == (True, True)
    assert at.seeds.tolist() == [2, 1]


def names(axes) -> list[str]:
    """The names beside the axes, from the top."""
    beside = [text for text in axes.texts if text.get_text() and text.get_position()[0] > 1]
    return [text.get_text() for text in sorted(beside, key=lambda text: -text.get_position()[1])]


def test_curves_draw_the_mean_and_are_named_at_their_ends():
    series = [Series("fedswe", [0, 10], [[1.0, 3.0], [3.0, 5.0]]), Series("fedavg", [0, 10], [[0.0, 1.0]])]
    chart = curves(
        [Panel("(a)", series, "accuracy, %"), Panel("(b)", series[:1], "accuracy, %"), Panel("(c)", [], "y")]
    )
    figure = drawn(chart)
    lines = figure.axes[0].get_lines()
    np.testing.assert_array_equal(lines[0].get_ydata(), [2, 4])
    assert lines[0].get_color() == figure.axes[1].get_lines()[0].get_color()
    assert [names(axes) for axes in figure.axes[:2]] == [["fedswe", "fedavg"], ["fedswe"]]
    assert not figure.legends
    assert "band: one standard deviation over 1 to 2 seeds" in figure.get_supxlabel().replace("\n", " ")


def test_a_panel_without_data_says_so_and_has_no_scale():
    axes = drawn(curves([Panel("(c)", [], "y")])).axes[0]
    assert [text.get_text() for text in axes.texts] == ["not measured"]
    assert (len(axes.get_xticks()), len(axes.get_yticks())) == (0, 0)


def test_names_do_not_overlap_and_lie_inside_the_figure():
    panel = Panel("server", [Series(f"algorithm_{i}", [0, 9], [[0, 0.9 + i / 1e4]]) for i in range(14)], "accuracy")
    for width in WIDTHS.values():
        chart = curves([panel, panel], width=width, note="digits")
        figure = render(chart.draw, chart.size)
        for axes in figure.axes:
            boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
            assert len(boxes) == 14
            assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
            assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
            assert names(axes) == [f"algorithm_{i}" for i in reversed(range(14))]


def test_a_caption_is_as_wide_as_the_figure():
    note = "digits, 30 clients, sine availability, 200 rounds, seeds 3, 4, 6, local rate 0.1. " * 4
    for width in WIDTHS.values():
        chart = curves([Panel("", [Series("a", [0, 1], [[0.0, 1.0]])], "y")], width=width, note=note)
        figure = render(chart.draw, chart.size)
        (text,) = (t for t in figure.texts if t.get_text().startswith("digits"))
        assert figure.bbox.x0 <= text.get_window_extent().x0
        assert 0.8 * figure.bbox.x1 < text.get_window_extent().x1 <= figure.bbox.x1


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


@pytest.mark.parametrize("count", [1, 6, 9, 13, 32])
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


@pytest.mark.parametrize(("points", "low"), [(2, 0.1), (3, 0.1), (5, 0.1), (6, 0.864)])
def test_a_curve_of_few_points_is_shown_as_a_whole(points, low):
    values = [0.1, *np.linspace(0.8, 0.96, points)[1:]]
    found = late_range([Panel("", [Series("a", range(points), [values])], "y")])
    np.testing.assert_allclose(found, [low - 0.05 * (0.96 - low), 0.96 + 0.05 * (0.96 - low)])


@pytest.mark.parametrize("values", [[1.0, NAN, INF], [0.0, 0.0, 0.0], [NAN, NAN, NAN]])
@pytest.mark.parametrize("log", [False, True])
def test_runs_that_diverged_are_drawn(values, log):
    panel = Panel("server", [Series("a", [0, 1, 2], [values])], "loss", log=log)
    figure = drawn(curves([panel], y_range=late_range([panel])))
    assert np.isfinite(figure.axes[0].get_ylim()).all()
    axes = drawn(dots(["a", "b", "c"], panel)).axes[0]
    assert np.isfinite(axes.get_xlim()).all()


def test_a_curve_without_a_number_is_named():
    panel = Panel("", [Series("a", [0, 1], [[NAN, NAN]]), Series("b", [0, 1], [[0.0, 1.0]])], "y")
    axes = drawn(curves([panel])).axes[0]
    assert names(axes) == ["b", "a\nno finite values"]


def test_a_curve_says_how_many_of_its_seeds_diverged():
    series = [
        Series("a", [0, 1, 2], [[1.0, 2.0, INF], [1.0, 4.0, 5.0]]),
        Series("b", [0, 1, 2], [[1.0, INF, INF]]),
        Series("c", [0, 1, 2], [[INF, INF, INF], [NAN, 2.0, 3.0]]),
        Series("d", [0, 1, 2], [[INF, INF, INF]]),
    ]
    axes = drawn(curves([Panel("", series, "y")])).axes[0]
    assert names(axes)[:2] == ["a\n1 of 2 diverged", "b\ndiverged"]
    assert set(names(axes)[2:]) == {"c\n1 of 2 diverged", "d\ndiverged"}  # without points
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [1, 3, NAN])
    axes = drawn(curves([Panel("", series[3:], "y")])).axes[0]
    assert names(axes) == ["d\ndiverged"]
    assert "nothing to draw" in [text.get_text() for text in axes.texts]


def test_no_line_leads_to_the_end_of_a_curve_outside_the_axes():
    series = [Series("a", [0, 1], [[0.0, 9.0]]), Series("b", [0, 1], [[0.0, 1.0]])]
    chart = curves([Panel("", series, "y")], y_range=(8, 10))
    leaders = [text for text in drawn(chart).axes[0].texts if not text.get_text()]
    assert [leader.get_visible() for leader in leaders] == [True, False]


def test_a_row_with_a_diverged_seed_has_no_mean():
    panel = Panel("", [Series.by_x("server", [0, 1, 2], [[90.0, 92.0], [80.0, INF], [INF]])], "", x="accuracy, %")
    axes = drawn(dots(["a", "b", "c"], panel)).axes[0]
    assert [text.get_text() for text in axes.texts] == ["server: 1 of 2 diverged", "server: diverged"]
    shown = np.concatenate([line.get_xdata() for line in axes.get_lines() if line.get_label() == "server"])
    assert shown.tolist() == [91]


def test_dots_are_seeds_and_means_in_rows():
    panel = Panel("", [Series.by_x("server", [0, 1], [[90.0, 92.0], [80.0]])], "", x="accuracy, %")
    axes = drawn(dots(["fedswe", "fedavg"], panel)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fedswe", "fedavg"]
    assert axes.yaxis_inverted()
    filled = [line for line in axes.get_lines() if line.get_label() == "server"]
    np.testing.assert_array_equal(filled[0].get_xdata(), [91, 80])
    open_ = [line.get_xdata().tolist() for line in axes.get_lines() if line.get_markerfacecolor() == "none"]
    assert open_ == [[90, 80], [92]]


def test_any_text_can_be_a_name(tmp_path):
    panel = Panel("server", [Series(r"$\frac{1", [0, 1], [[0.0, 1.0]]), Series("名前", [0, 1], [[0.0, 1.0]])], "y")
    chart = curves([panel], note=r"$\frac{1")
    save(chart.draw, chart.size, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").is_file()
    chart = dots([r"$\frac{1", "名前"], Panel("", [Series("server", [0, 1], [[0.0, 1.0]])], ""))
    save(chart.draw, chart.size, tmp_path / "b.svg")
    assert (tmp_path / "b.svg").is_file()


@pytest.mark.parametrize("seeds", [[1.0, 2.0], [[1.0, 2.0, 3.0]], np.zeros((0, 2))])
def test_a_series_that_does_not_fit_its_x_is_refused(seeds):
    with pytest.raises(FedsweError, match="give one row per seed with 2 values"):
        Series("a", [0, 1], seeds)
