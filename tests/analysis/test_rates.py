"""fedswe theory rates: limits and bounds for given constants of a task."""

import pytest

from fedswe.theory.mixing import rho
from fedswe.theory.rates import corollary_bound, corollary_rounds, theorem_rate_limits


def test_rates(values):
    words = ["stationary", "availability.p=[0.5,0.5,0.8,1.0]", "local.steps=3", "rounds=50", "--k", "0,4"]
    task = {"smoothness": 2.0, "noise": 0.3, "heterogeneity": 0.7, "beta": 0.5, "gap": 5.0}
    said = values("rates", *words, *(word for name, value in task.items() for word in (f"--{name}", value)))
    entry, bounds = said["rate_limits"][1], said["bounds"][1]
    mixing = {"rho": rho([[0.5, 0.5, 0.8, 1.0]], 4), "delta": 0.5, "period": 1, "clients": 4, "k": 4, "steps": 3}
    assert entry["rho"] == pytest.approx(mixing["rho"])
    limits = theorem_rate_limits(**mixing, smoothness=2.0, beta=0.5)
    assert entry["product"] == pytest.approx(limits.product)
    assert entry["corollary_rounds"] == pytest.approx(corollary_rounds(**mixing, beta=0.5), rel=1e-9)
    known = {"smoothness": 2.0, "sigma_squared": 0.3, "zeta": 0.7, "initial_gap": 5.0}
    bound = corollary_bound(**mixing, **known, delta_max=1.0, rounds=50)
    assert bounds["total"] == pytest.approx(bound.total)


def test_no_rate_is_admitted_where_clients_never_mix(values, theory, tmp_path):
    words = ["alternating", "availability.p=[1.0,1.0]", "availability.period=2", "rounds=20"]
    assert values("rates", *words, "--k", "0")["rate_limits"][0]["product"] is None
    assert "∞" in theory("rates", *words, "--k", "0,1")
    theory("rates", *words, "--k", "0", "--plot", tmp_path / "a.svg")
    assert "nothing to draw" in (tmp_path / "a.svg").read_text()
