"""fedswe theory rates: limits and bounds with the constants of the task."""

import numpy as np
import pytest

from fedswe.theory.mixing import rho
from fedswe.theory.rates import corollary_bound, corollary_rounds, theorem_rate_limits


def test_rates(values):
    """Noisy quadratics whose constants are known."""
    centers = np.random.default_rng(0).normal(size=(4, 3))
    words = ["stationary", "availability.p=[0.5,0.5,0.8,1.0]", "task.name=quadratic",
             f"task.centers={centers.tolist()}", "task.noise=0.2",
             "local.lr=0.01", "local.steps=3", "rounds=50"]  # fmt: skip
    said = values("rates", *words, "--k", "0,4", "--points", 3)
    assert said["smoothness"] == pytest.approx(1, rel=1e-6)
    assert abs(said["sigma_squared"] - 0.12) < 5 * said["sigma_squared_standard_error"]
    assert said["beta"] == pytest.approx(0, abs=1e-5)
    assert said["zeta"] ** 2 == pytest.approx(centers.var(axis=0).sum(), rel=1e-6)
    assert said["initial_gap"] == pytest.approx(0.5 * np.sum(centers.mean(axis=0) ** 2))
    entry, bounds = said["rate_limits"][1], said["bounds"][1]
    mixing = {"rho": rho([[0.5, 0.5, 0.8, 1.0]], 4), "delta": 0.5, "period": 1, "clients": 4, "k": 4}
    assert entry["rho"] == pytest.approx(mixing["rho"])
    limits = theorem_rate_limits(**mixing, steps=3, smoothness=said["smoothness"], beta=said["beta"])
    assert entry["product"] == pytest.approx(limits.product)
    assert entry["corollary_rounds"] == pytest.approx(corollary_rounds(**mixing, steps=3, beta=said["beta"]), rel=1e-9)
    known = {n: said[n] for n in ("initial_gap", "smoothness", "sigma_squared", "zeta", "delta_max")}
    bound = corollary_bound(**mixing, **known, steps=3, rounds=50)
    assert bounds["total"] == pytest.approx(bound.total)


def test_no_rate_is_admitted_where_clients_never_mix(values, theory, tmp_path):
    words = ["alternating", "availability.p=[1.0,1.0]", "availability.period=2", "task.name=quadratic", "rounds=20"]
    assert values("rates", *words, "--k", "0")["rate_limits"][0]["product"] is None
    assert "∞" in theory("rates", *words, "--k", "0,1")
    theory("rates", *words, "--k", "0", "--plot", tmp_path / "a.svg")
    assert "nothing to draw" in (tmp_path / "a.svg").read_text()
