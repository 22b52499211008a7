"""One figure of several runs: what is drawn, how it is named, and what is refused."""

import math
import re

import numpy as np
import pytest

import fedswe
from fedswe.comparison.compare import Comparison
from fedswe.comparison.labels import run_name
from fedswe.comparison.measured_run import measured_runs
from fedswe.errors import FedsweError, FedsweWarning
from fedswe.figures import plot
from tests.figures.runs import with_scores, write_run, write_runs
from tests.figures.test_runs import HEAD


def names(axes):
    return {line.get_label() for line in axes.get_lines()}


def caption(figure):
    return figure.get_supxlabel().replace("\n", " ")


@pytest.fixture
def two(tmp_path):
    """Two algorithms with two seeds each."""
    return write_runs(tmp_path, {"fedswe": {3: 0.943, 4: 0.944}, "fedavg": {3: 0.923, 4: 0.924}})


def test_runs_are_grouped_over_seeds_and_named(two):
    figure = plot(two)
    assert [axes.get_title() for axes in figure.axes] == ["server", "client mean"]
    for axes in figure.axes:
        assert names(axes) == {"fedswe", "fedavg"}
        assert len({line.get_color() for line in axes.get_lines()[:2]}) == 2
        assert len({str(line.get_linestyle()) + line.get_marker() for line in axes.get_lines()[:2]}) == 2
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata()[-1], 94.35)  # the mean of 94.3 and 94.4 %
    assert figure.axes[0].get_ylabel() == "test accuracy, %"
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
def test_long_labels_leave_the_axes_their_width_and_eight_are_coloured(size, tmp_path):
    """The best, and the one that was named."""
    labels, table = [f"interval_extrapolation:cutoff={i}:chain=[momentum:0.5]" for i in range(10)], HEAD
    for i, label in enumerate(labels):
        run = write_run(tmp_path / "runs" / run_name(label, 0.1, 3), accuracy=0.5 + i / 100, algorithm={"k": float(i)})
        table += f"{label},3,0.1,false,true,0,server,loss,1\n".replace(label, f'"{label}"')
    (tmp_path / "compare.csv").write_text(table)
    (axes,) = (figure := plot(tmp_path, size=size, labels={labels[0]: "the worst"})).axes
    assert axes.get_position().width > 0.8
    assert {line.get_color() for line in axes.get_lines() if line.get_label() == "2 others"} == {"0.8"}
    assert names(axes) == {
        "the worst",
        "2 others",
        *(f"interval_extrapolation+momentum cutoff={i}" for i in range(3, 10)),
    }
    assert "interval_extrapolation+momentum cutoff=9: interval_extrapolation:cutoff=9:chain" in caption(figure)
    with pytest.raises(FedsweError, match="no curve is called fedav: known are fedswe"):
        plot(run, labels={"fedav": "a"})


def test_where_groups_take_turns_a_curve_is_the_mean_over_a_period(tmp_path):
    run = with_scores(write_run(tmp_path / "a", rounds=100), server_test_accuracy=[0.2, 0.8] * 5)
    figure = plot(run, models=["server"])
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata(), [10, 20, *[50] * 9])
    assert "Curves are means over one period of the availability, 20 rounds." in caption(figure)


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


def test_a_result_in_memory_is_drawn():
    experiment = fedswe.Experiment(rounds=4, evaluate=fedswe.Evaluate(every=2))
    figure = plot(fedswe.run(experiment))
    assert names(figure.axes[0]) == {"fedswe"}
    assert re.match(r"digits, \d+ clients, sine availability, 4 rounds, seed 3", caption(figure))


def said(axes):
    return [text.get_text() for text in axes.texts if "diverged" in text.get_text()]


LOST = [
    {"server_test_loss": [math.nan]},
    {"server_test_loss": [1e6]},  # finite, and more than a hundred times the first
    {"server_test_loss": [math.nan, 0.5]},  # in the last rounds, though not in the last one
]


@pytest.mark.parametrize("columns", LOST)
@pytest.mark.parametrize("other", ["diverged too", "survives"])
def test_a_diverged_seed_is_in_no_mean_of_final_scores(columns, other, tmp_path):
    runs = write_runs(tmp_path, {"fedavg": {3: 0.5, 4: 0.5}})
    runs += [with_scores(write_run(tmp_path / "3", 3), **columns), write_run(tmp_path / "4", 4)]
    if other == "diverged too":
        with_scores(runs[-1], **columns)
    figure = plot(runs, y="test_loss", models=["server"], kind="final")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fedavg", "fedswe"]  # what diverged is last
    means = next(line for line in axes.get_lines() if line.get_label() == "server")
    np.testing.assert_allclose(means.get_xdata(), [0.5])
    assert said(axes) == [f"server: {'1 of 2 ' * (other == 'survives')}diverged"]
    assert "There is no mean where a seed diverged." in caption(figure)


def test_the_figure_of_a_comparison_says_what_its_table_says(tmp_path):
    """All scores of a model that diverged, and none of the other model."""
    runs = [with_scores(write_run(tmp_path / "3", 3), server_test_loss=[1e6]), write_run(tmp_path / "4", 4)]
    histories = [run.history for run in measured_runs(runs)]
    kept = {("fedswe", 0.1, seed): history for seed, history in zip((3, 4), histories, strict=True)}
    comparison = Comparison(kept, {("fedswe", "server"): 0.1}, (3, 4))
    for score in ("test_loss", "test_accuracy"):
        assert comparison.means.loc["fedswe", "server", 0.1, score]["diverged"] == 1
        assert said(plot(runs, y=score, kind="final").axes[0]) == ["server: 1 of 2 diverged"]
        assert [said(axes) for axes in plot(runs, y=score).axes] == [["fedswe: 1 of 2 diverged"], []]
    assert said(plot(comparison, kind="final").axes[0]) == ["server: 1 of 2 diverged"]


@pytest.mark.parametrize("value", [math.nan, 1e6])
def test_a_curve_ends_where_a_seed_diverged(value, tmp_path):
    runs = [
        with_scores(write_run(tmp_path / "3", 3), server_test_loss=[value, value]),
        with_scores(write_run(tmp_path / "4", 4), server_test_loss=[0.2, 0.3]),
    ]
    for score, mean in (("test_loss", [0.9, 0.1, 0.1]), ("test_accuracy", [10, 90, 90])):
        figure = plot(runs, y=score)
        np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata(), [*mean, math.nan, math.nan])
        assert np.isfinite(figure.axes[1].get_lines()[0].get_ydata()).all()  # the other model did not diverge
        assert said(figure.axes[0]) == ["fedswe: 1 of 2 diverged"]
        assert names(figure.axes[1]) == {"fedswe"}
        assert "A curve ends where one of its seeds diverged." in caption(figure)
    (axes,) = plot(runs, y="available").axes  # does not depend on the model
    assert (names(axes), np.isfinite(axes.get_lines()[0].get_ydata()).all()) == ({"fedswe"}, True)


def test_a_curve_has_a_gap_where_a_seed_has_no_finite_score(tmp_path):
    runs = [
        with_scores(write_run(tmp_path / "3", 3, rounds=100), server_test_loss=[math.nan, *[0.1] * 8]),
        write_run(tmp_path / "4", 4, rounds=100),
    ]
    figure = plot(runs, y="test_loss", models=["server"])
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata(), [0.9, 0.1, math.nan, *[0.1] * 8])
    assert names(figure.axes[0]) == {"fedswe"}
    assert "diverged" not in caption(figure)


def test_a_run_that_has_only_begun_has_no_final_score(tmp_path):
    begun = write_run(tmp_path / "3", 3, rounds=0)
    with pytest.warns(FedsweWarning, match="3 was not evaluated after round 0: it has no final score"):
        axes = plot([begun, write_run(tmp_path / "4", 4)], kind="final", models=["server"]).axes[0]
    np.testing.assert_allclose(
        next(line for line in axes.get_lines() if line.get_label() == "server").get_xdata(), [90]
    )
    with pytest.raises(FedsweError, match="there are no final scores"):
        plot(begun, kind="final")
    assert said(plot(begun).axes[0]) == []


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
