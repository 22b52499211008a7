"""fedswe theory mixing: rho_k of the worst window, exact and estimated."""

import numpy as np
import pytest

from fedswe.theory.mixing import realised_rho, rho, rho_limit, rho_monte_carlo
from tests.theory.test_mixing import KS, REFERENCE

DIGITS = ["task.clients=6", "task.alpha=1"]


def test_mixing(values):
    said = values("mixing", "stationary", f"availability.p={[0.3] * 10}", "--k", ",".join(map(str, KS)))
    assert [entry["rho"] for entry in said["rho"]] == pytest.approx(REFERENCE[0.3], abs=5e-5)
    assert said["limit_of_large_k"] == pytest.approx(0.7)
    assert all(e["rho"] <= 1 - 10 ** e["log10_gap"] <= 1 for e in said["rho"])
    assert [e["rho"] for e in values("mixing", "always", *DIGITS, "--k", "0,1,10")["rho"]] == [0, 0, 0]
    groups = ["alternating", f"availability.p={[0.1] * 5 + [0.5] * 5}", "availability.period=20"]
    said = values("mixing", *groups, "--k", "0,1")
    assert [e["rho"] for e in said["rho"]] == pytest.approx([1, 0.696], abs=1e-3)
    drawn = values("mixing", *groups, "--k", "1", "--draws", 300)["rho"][0]
    assert drawn["interval"][0] <= 0.696 <= drawn["interval"][1]


def test_mixing_takes_the_worst_window(values):
    words = ["cyclic", "availability.p=[0.2,0.9,0.9]", "availability.groups=3", "--k", "1", "--period", 4]
    said = values("mixing", *words)
    prob = np.diag([0.2, 0.9, 0.9])
    windows = [prob[(4 * n + np.arange(4)) % 3] for n in range(3)]
    found = [rho(w, 1) for w in windows]
    assert found[0] < max(found) - 0.1  # the first window is not the worst
    assert said["rho"][0]["rho"] == pytest.approx(max(found))
    assert said["limit_of_large_k"] == pytest.approx(max(rho_limit(w) for w in windows))
    # simulated: one interval for the largest of three, wider than that of any window alone
    drawn = values("mixing", *words, "seed=0", "--draws", 400)["rho"][0]
    alone = [rho_monte_carlo(w, 1, 400, 0) for w in windows]
    sure = [rho_monte_carlo(w, 1, 400, 0, confidence=1 - 0.05 / 3) for w in windows]
    assert drawn["rho"] == max(e.rho for e in alone)
    assert drawn["interval"] == [max(e.lower for e in sure), max(e.upper for e in sure)]
    assert drawn["interval"][0] < max(e.lower for e in alone) < max(found) < max(e.upper for e in alone)


def test_mixing_of_a_trace(values, mask):
    said = values("mixing", *mask[0], "--k", "0,2", "--period", 5)
    for entry in said["rho"]:
        assert entry["interval"][0] <= rho([[0.2, 0.5, 0.8]] * 5, entry["k"]) <= entry["interval"][1]
        worst = max(realised_rho(window, entry["k"]) for window in mask[1].reshape(-1, 5, 3))
        assert entry["rho"] < entry["realised_worst_window"] == pytest.approx(worst)
