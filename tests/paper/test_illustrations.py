"""The figures that need no training: their numbers are the exact ones, and every one of them can be drawn."""

import csv
import io
from collections import Counter

import numpy as np
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
    return list(csv.DictReader(io.StringIO(chart(name).data)))


@pytest.mark.parametrize("name", [*DRAWN, "fig6-dynamics"])
def test_every_figure_is_written(name, tmp_path):
    paths = chart(name).save(tmp_path, name)
    assert [path.suffix for path in paths] == [".png", ".svg", ".csv"]
    assert all(path.stat().st_size > 500 for path in paths)


def test_fig2_is_the_exact_bias():
    distance = {(r["p_1"], r["p_2"]): r["distance"] for r in rows("fig2")}
    assert len(distance) == 101**2
    assert distance["0", "0"] == ""  # nobody is ever there
    assert float(distance["0.1", "0.9"]) == pytest.approx(43.96, abs=0.005)
    assert all(float(distance[f"{p:g}", f"{p:g}"]) == pytest.approx(0, abs=1e-9) for p in (0.1, 0.5, 1.0))


def test_fig4_falls_with_k_and_is_zero_when_everybody_is_there():
    """As the paper says of it; k = 0 in two groups does not mix at all."""
    curves = {}
    for row in rows("fig4"):
        curves.setdefault((row["window"], row["p"]), []).append(float(row["rho"]))
    assert len(curves) == 10
    for (window, p), rho in curves.items():
        if window == "P = 1":
            known = [value for k, value in zip(KS, REFERENCE[float(p)], strict=True) if k <= 50]
            assert [rho[k] for k in KS if k <= 50] == pytest.approx(known, abs=5e-5)
        if p == "1":
            np.testing.assert_allclose(rho, 0, atol=1e-9)
        else:
            assert (np.diff(rho) < 0).all()
            assert window == "P = 1" or rho[0] == pytest.approx(1)


def test_fig5_without_interpolation_does_not_settle():
    ends = {r["k"]: (float(r["client_1"]), float(r["client_2"])) for r in rows("fig5")}
    assert ends["0"][0] - ends["0"][1] > 95  # u = ±100, each towards its own optimum
    assert [run["cycle"][0] for run in alternating_runs()] == pytest.approx([100, 0.990], abs=5e-4)
    assert abs(ends["1"][0] - ends["1"][1]) < 2.1


def test_fig14_places_every_image_once():
    table = rows("fig14")
    assert len(table) == 20 * 10
    per_class = Counter()
    for row in table:
        per_class[row["class"]] += int(row["images"])
    assert set(per_class.values()) == {5000}
    shares = [sum(float(r["share"]) for r in table if r["client"] == str(i)) for i in range(20)]
    np.testing.assert_allclose(shares, 1, atol=1e-5)


def test_fig15_has_the_released_codes_probabilities_most_below_one_half():
    base = base_probabilities()
    np.testing.assert_allclose(base[:5], [0.326512, 0.195533, 0.360414, 0.549693, 0.487022], atol=5e-7)
    stated = look_up(
        "figures", figure="fig15", part="", quantity="share of clients with p_i below 0.5", relation=">", unit="%"
    )
    assert stated is not None
    assert 100 * (base < 0.5).mean() > stated.values["value"].mean


def test_fig16_follows_the_dynamics_of_the_paper():
    prob = {(r["dynamics"], r["base_p"], int(r["round"])): float(r["p"]) for r in rows("fig16")}
    stated = [r.values["value"].mean for r in published("figures") if r.keys["figure"] == "fig16"]
    assert sorted({p for _, p, _ in prob}) == [f"{p:g}" for p in stated]
    assert len(prob) == 3 * 3 * 80
    assert {prob["stationary", "0.5", t] for t in range(80)} == {0.5}
    assert [prob["staircase", "0.9", t] for t in (0, 9, 10, 19, 20)] == pytest.approx([0.9, 0.9, 0.36, 0.36, 0.9])
    assert [prob["sine", "0.5", t] for t in (0, 5, 15)] == pytest.approx([0.35, 0.5, 0.2])


def test_a_client_is_there_about_as_often_as_its_probability_says():
    for name in ("fig16", "fig6-dynamics"):
        groups = {}
        for row in rows(name):
            groups.setdefault((row["dynamics"], row["base_p"]), []).append((float(row["p"]), int(row["available"])))
        for pairs in groups.values():
            p, present = np.array(pairs).T
            assert abs(present.sum() - p.sum()) <= 4 * np.sqrt((p * (1 - p)).sum())
            assert not present[p == 0].any()


def test_two_groups_share_each_period_evenly():
    for row in rows("fig6-dynamics"):
        first = int(row["round"]) % 100 < 50
        assert (float(row["p"]) > 0) == (first == (row["base_p"] == "0.8"))


def test_fig1_shows_clients_that_differ_and_change():
    prob, present = {}, {}
    for row in rows("fig1"):
        prob.setdefault(row["client"], []).append(float(row["p"]))
        present.setdefault(row["client"], []).append(int(row["available"]))
    assert list(prob) == ["1", "2", "3", "4"]
    assert len(set(prob["1"])) == 1
    assert all(len(set(prob[i])) > 1 for i in "234")
    assert len({max(p) for p in prob.values()}) == 4
    assert prob["4"].count(0.0) == 48  # and it is never available then
    for i, p in prob.items():
        assert not any(there for there, chance in zip(present[i], p, strict=True) if chance == 0)
        assert abs(sum(present[i]) - sum(p)) <= 4 * np.sqrt(sum(x * (1 - x) for x in p))


def test_fig13_has_the_entries_of_the_mixing_matrices_above_the_bounds_of_the_proof():
    table = rows("fig13")
    assert all(float(row["weight"]) >= float(row["lower_bound"]) for row in table)
    first, second = mixing_matrix([1, 0, 0], 2), mixing_matrix([0, 0, 1], 2)
    whole = [float(row["weight"]) for row in table if row["kind"] == "two rounds"]
    product = first @ second
    assert whole == pytest.approx([product[0, 2], product[0, 3], product[3, 2]], rel=1e-5)
    by_hand = sum(first[0, v] * second[v, 2] for v in (3, 4))  # both virtual clients carry it
    assert whole[0] == pytest.approx(by_hand, rel=1e-5)
    edges = [float(row["weight"]) for row in table if row["kind"] == "edge"]
    assert edges == pytest.approx([first[0, 3], second[3, 2], first[0, 3], second[3, 2]], rel=1e-5)
