"""One figure of several runs: what is drawn, how it is named, and what is refused."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import fedswe
from fedswe.errors import FedsweError, FedsweWarning
from fedswe.figures import plot
from tests.figures.runs import write_run


def names(axes):
    return {text.get_text() for text in axes.texts if text.get_position()[0] > 1} - {""}


def caption(figure):
    return figure.get_supxlabel().replace("\n", " ")


@pytest.fixture
def two(tmp_path):
    """Two algorithms with two seeds each."""
    return [
        write_run(tmp_path / f"{name}-{seed}", seed, accuracy + seed / 1000, algorithm={"name": name})
        for name, accuracy in (("fedswe", 0.94), ("fedavg", 0.92))
        for seed in (3, 4)
    ]


def test_runs_are_grouped_over_seeds_and_named(two):
    figure = plot(two)
    assert [axes.get_title() for axes in figure.axes] == ["server", "client mean"]
    for axes in figure.axes:
        assert names(axes) == {"fedswe", "fedavg"}
        assert len({line.get_color() for line in axes.get_lines()[:2]}) == 2
        assert len({str(line.get_linestyle()) + line.get_marker() for line in axes.get_lines()[:2]}) == 2
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata()[-1], 94.35)  # the mean of 94.3 and 94.4 %
    assert figure.axes[0].get_ylabel() == "test accuracy, %"


@pytest.mark.parametrize(("every", "lowest"), [(5, 90), (20, 4)])
def test_the_axes_show_the_late_part_unless_there_are_few_points(every, lowest, tmp_path):
    runs = [write_run(tmp_path / name, accuracy=accuracy, every=every, algorithm={"name": name})
            for name, accuracy in (("fedswe", 0.943), ("fedavg", 0.923))]  # fmt: skip
    low, high = plot(runs).axes[0].get_ylim()
    assert lowest < low < lowest + 2  # also the other model, which is worse by one point; 10 % before the first round
    assert 94 < high < 99


def test_the_caption_names_data_clients_availability_rounds_seeds_and_rates(two):
    expected = "digits, 30 clients, sine availability, 40 rounds, seeds 3, 4, local rate 0.1. "
    assert caption(plot(two)) == expected + "Line: mean; band: one standard deviation over 2 seeds."
    final = caption(plot(two, kind="final"))
    assert final.startswith(expected + "Scores are means over the last 40 rounds.")


def test_seconds_on_the_x_axis(two):
    axes = plot(two, x="seconds").axes[0]
    assert axes.get_xlabel() == "seconds"
    np.testing.assert_allclose(axes.get_lines()[0].get_xdata(), [0, 2, 4, 6, 8])


def test_final_scores_are_sorted_with_a_dot_per_seed(two):
    axes = plot(two, kind="final").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fedswe", "fedavg"]
    means = next(line for line in axes.get_lines() if line.get_label() == "server")
    np.testing.assert_allclose(means.get_xdata(), [94.35, 92.35])
    losses = plot(two, kind="final", y="test_loss", models=["server"]).axes[0]
    assert [label.get_text() for label in losses.get_yticklabels()] == ["fedswe", "fedavg"]  # a low loss is good


def test_a_column_that_belongs_to_no_model(two):
    (axes,) = plot(two, y="available").axes
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [0, 10, 10, 10, 10])


@pytest.mark.parametrize("size", ["single", "double"])
def test_a_figure_is_as_wide_as_a_column(two, size, tmp_path):
    figure = plot(two, size=size, out=tmp_path / "a.svg")
    assert figure.get_size_inches()[0] == {"single": 3.3, "double": 6.9}[size]
    before = (tmp_path / "a.svg").read_bytes()
    plot(two, size=size, out=tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == before


def test_losses_of_several_orders_are_logarithmic(tmp_path):
    good = write_run(tmp_path / "a", accuracy=0.99999)
    assert plot(good, y="test_loss").axes[0].get_yscale() == "log"
    close = write_run(tmp_path / "b", accuracy=0.6)
    assert plot(close, y="test_loss").axes[0].get_yscale() == "linear"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": "test_acuracy"}, "did you mean test_accuracy"),
        ({"models": ["sever"]}, "did you mean server"),
        ({"x": "hours"}, "choose rounds, seconds, bytes"),
        ({"kind": "bars"}, "choose curves, final"),
        ({"size": "huge"}, "choose single, double"),
        ({"out": "a.jpg"}, "must end in"),
    ],
)
def test_mistakes_are_one_line(options, message, two):
    with pytest.raises(FedsweError, match=message):
        plot(two, **options)


def test_a_result_in_memory_is_drawn():
    experiment = fedswe.Experiment(rounds=4, evaluate=fedswe.Evaluate(every=2))
    result = fedswe.run(experiment)
    figure = plot(SimpleNamespace(history=getattr(result, "history", result), experiment=experiment, models={}))
    assert names(figure.axes[0]) == {"fedswe"}
    assert re.match(r"digits, \d+ clients, sine availability, 4 rounds, seed 3", caption(figure))


def test_an_unfinished_run_is_drawn_with_a_warning(tmp_path):
    run = write_run(tmp_path / "a", finished=False)
    with pytest.warns(FedsweWarning, match="not finished: it is drawn up to round 40"):
        figure = plot(run)
    assert names(figure.axes[0]) == {"fedswe"}


@pytest.mark.parametrize("value", ["nan", "-inf", "1e308", "-1e308", "1e-320"])
@pytest.mark.parametrize("kind", ["curves", "final"])
def test_scores_beyond_any_axis_are_drawn(value, kind, tmp_path):
    """Warnings are errors here: nothing overflows."""
    runs = [write_run(tmp_path / str(seed), seed) for seed in (3, 4)]
    for run in runs:
        head, first, *rows = (run / "history.csv").read_text().splitlines()
        rows = [",".join([*row.split(",")[:3], value, *row.split(",")[4:]]) for row in rows]
        (run / "history.csv").write_text("\n".join([head, first, *rows]))
    figure = plot(runs, y="test_loss", models=["server"], kind=kind, size="single")
    assert np.isfinite([figure.axes[0].get_xlim(), figure.axes[0].get_ylim()]).all()
