"""The figures that need no training: their numbers are the exact ones, and every one of them can be drawn."""

import io

import numpy as np
import pandas as pd
import pytest

from fedswe_paper.illustrations import DRAWN, alternating_groups, alternating_runs, base_probabilities
from fedswe_paper.measurements import Measurements
from fedswe_paper.published import look_up, published
from tests.paper.handmade import FULL
from tests.theory.definitions import mixing_matrix
from tests.theory.test_mixing import KS, REFERENCE


def chart(name):
    return alternating_groups() if name == "fig6-dynamics" else DRAWN[name].report(FULL, Measurements([])).charts[name]


def rows(name):
    return pd.read_csv(io.StringIO(chart(name).data))


@pytest.mark.parametrize("name", [*DRAWN, "fig6-dynamics"])
def test_every_figure_is_written(name, tmp_path):
    paths = chart(name).save(tmp_path, name)
    assert [path.suffix for path in paths] == [".png", ".svg", ".csv"]
    assert all(path.stat().st_size > 500 for path in paths)


def test_fig2_is_the_exact_bias():
    distance = rows("fig2").set_index(["p_1", "p_2"])["distance"]
    assert len(distance) == 101**2
    assert np.isnan(distance[0, 0])  # nobody is ever there
    assert distance[0.1, 0.9] == pytest.approx(43.96, abs=0.005)
    assert all(distance[p, p] == pytest.approx(0, abs=1e-9) for p in (0.1, 0.5, 1.0))


def test_fig4_falls_with_k_and_is_zero_when_everybody_is_there():
    """As the paper says of it; k = 0 in two groups does not mix at all."""
    curves = dict(list(rows("fig4").groupby(["window", "p"])["rho"]))
    assert len(curves) == 10
    for (window, p), curve in curves.items():
        rho = curve.to_numpy()
        if window == "P = 1":
            known = [value for k, value in zip(KS, REFERENCE[float(p)], strict=True) if k <= 50]
            assert [rho[k] for k in KS if k <= 50] == pytest.approx(known, abs=5e-5)
        if p == "1":
            np.testing.assert_allclose(rho, 0, atol=1e-9)
        else:
            assert (np.diff(rho) < 0).all()
            assert window == "P = 1" or rho[0] == pytest.approx(1)


def test_fig5_without_interpolation_does_not_settle():
    ends = rows("fig5").groupby("k").last()
    apart = ends["client_1"] - ends["client_2"]
    assert apart[0] > 95  # u = ±100, each towards its own optimum
    assert [run["cycle"][0] for run in alternating_runs()] == pytest.approx([100, 0.990], abs=5e-4)
    assert abs(apart[1]) < 2.1


def test_fig14_places_every_image_once():
    table = rows("fig14")
    assert len(table) == 20 * 10
    assert set(table.groupby("class")["images"].sum()) == {5000}
    np.testing.assert_allclose(table.groupby("client")["share"].sum(), 1, atol=1e-5)


def test_fig15_has_the_released_codes_probabilities_most_below_one_half():
    base = base_probabilities()
    np.testing.assert_allclose(base[:5], [0.326512, 0.195533, 0.360414, 0.549693, 0.487022], atol=5e-7)
    stated = look_up(
        "figures", figure="fig15", part="", quantity="share of clients with p_i below 0.5", relation=">", unit="%"
    )
    assert stated is not None
    assert 100 * (base < 0.5).mean() > stated.values["value"].mean


def test_fig16_follows_the_dynamics_of_the_paper():
    prob = rows("fig16").set_index(["dynamics", "base_p", "round"])["p"].sort_index()
    stated = [r.values["value"].mean for r in published("figures") if r.keys["figure"] == "fig16"]
    assert sorted(set(prob.index.get_level_values("base_p"))) == stated
    assert len(prob) == 3 * 3 * 80
    assert set(prob["stationary", 0.5]) == {0.5}
    assert [prob["staircase", 0.9, t] for t in (0, 9, 10, 19, 20)] == pytest.approx([0.9, 0.9, 0.36, 0.36, 0.9])
    assert [prob["sine", 0.5, t] for t in (0, 5, 15)] == pytest.approx([0.35, 0.5, 0.2])


@pytest.mark.parametrize(
    ("name", "one"),
    [("fig16", ["dynamics", "base_p"]), ("fig6-dynamics", ["dynamics", "base_p"]), ("fig1", ["client"])],
)
def test_a_client_is_there_about_as_often_as_its_probability_says(name, one):
    for _, table in rows(name).groupby(one):
        p, there = table["p"], table["available"]
        assert abs(there.sum() - p.sum()) <= 4 * np.sqrt((p * (1 - p)).sum())
        assert not there[p == 0].any()


def test_two_groups_share_each_period_evenly():
    table = rows("fig6-dynamics")
    first = table["round"] % 100 < 50
    assert ((table["p"] > 0) == (first == (table["base_p"] == 0.8))).all()


def test_fig1_shows_clients_that_differ_and_change():
    table = rows("fig1")
    prob = table.groupby("client")["p"]
    assert list(prob.groups) == [1, 2, 3, 4]
    assert [values > 1 for values in prob.nunique()] == [False, True, True, True]
    assert prob.max().nunique() == 4
    assert (table.query("client == 4")["p"] == 0).sum() == 48


def test_fig13_has_the_entries_of_the_mixing_matrices_above_the_bounds_of_the_proof():
    table = rows("fig13")
    assert (table["weight"] >= table["lower_bound"]).all()
    first, second = mixing_matrix([1, 0, 0], 2), mixing_matrix([0, 0, 1], 2)
    whole = table.query("kind == 'two rounds'")["weight"].tolist()
    product = first @ second
    assert whole == pytest.approx([product[0, 2], product[0, 3], product[3, 2]], rel=1e-5)
    by_hand = sum(first[0, v] * second[v, 2] for v in (3, 4))  # both virtual clients carry it
    assert whole[0] == pytest.approx(by_hand, rel=1e-5)
    edges = table.query("kind == 'edge'")["weight"].tolist()
    assert edges == pytest.approx([first[0, 3], second[3, 2], first[0, 3], second[3, 2]], rel=1e-5)
