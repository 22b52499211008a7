"""Charts show mean and std over seeds, say what is missing, and give the same files every time."""

import csv
import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedswe.errors import FedsweError
from fedswe.plotting import Chart, Panel, Series, bars, curves, plot_comparison, save, spread

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


@pytest.mark.parametrize("count", [1, 6, 9, 13, 32])
def test_every_label_has_its_own_colour_and_line_style(count):
    panel = Panel("", [Series(f"s{i}", [0, 1], [[0.0, 1.0]]) for i in range(count)], "y")
    lines = drawn(curves([panel])).axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == count
    family = [line.get_color() for line in drawn(curves([panel], ordered=True)).axes[0].get_lines()]
    assert len(set(family)) == count


def test_rounds_are_whole_numbers():
    axes = drawn(curves([Panel("", [Series("a", [0, 5], [[0.0, 1.0]])], "rounds to 40 %")])).axes[0]
    for ticks in (axes.get_xticks(), axes.get_yticks()):
        np.testing.assert_array_equal(ticks, np.round(ticks))


def comparison(tmp_path, panels):
    """The axes that plot_comparison writes."""
    figures = []

    class Recorded(Figure):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            figures.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure", Recorded)
        plot_comparison(panels, "digits, sine availability", tmp_path / "compare.png")
    assert len(figures) == 1  # one figure for both files
    return figures[0]


def test_a_comparison_shows_the_end_of_its_curves_in_all_panels_alike(tmp_path):
    x = list(range(0, 101, 10))
    late = [0.1, *np.linspace(0.9, 0.94, 10)]
    panels = [
        Panel("server", [Series("a", x, [late])], "accuracy"),
        Panel("client mean", [Series("a", x, [[*late[:-1], 0.92]])], "accuracy"),
    ]
    figure = comparison(tmp_path, panels)
    for axes in figure.axes:
        np.testing.assert_allclose(axes.get_ylim(), [0.898, 0.942])
    assert figure.get_suptitle() == "digits, sine availability"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare.png", "compare.svg"]


@pytest.mark.parametrize("values", [[1.0, NAN, INF], [0.0, 0.0, 0.0], [NAN, NAN, NAN]])
@pytest.mark.parametrize("log", [False, True])
def test_a_comparison_of_runs_that_diverged_is_drawn(values, log, tmp_path):
    figure = comparison(tmp_path, [Panel("server", [Series("a", [0, 1, 2], [values])], "loss", log=log)])
    assert np.isfinite(figure.axes[0].get_ylim()).all()


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


def test_a_read_only_folder_is_one_line(tmp_path, monkeypatch):
    def read_only(*args, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Figure, "savefig", read_only)
    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    with pytest.raises(FedsweError, match=r"cannot write .*a\.png: Read-only file system"):
        save(Figure.subplots, (2, 2), tmp_path / "a.png")
