"""fedswe theory bias: limits of the expected models as weights on the clients' optima."""

import numpy as np
import pytest

TWO = ["stationary", "availability.p=[0.1,0.9]"]
DIGITS = ["task.clients=6", "task.alpha=1"]


def test_bias_of_two_quadratics(values, theory):
    words = [*TWO, "task.name=quadratic", "local.lr=0.01", "local.steps=1", "algorithm.k=5"]
    said = values("bias", *words)
    assert said["optimum"] == [50]
    limits = {(e["algorithm"], e["model"]): e for e in said["limits"]}
    assert limits["fedavg", "server"]["distance"] == pytest.approx(43.96, abs=0.005)
    assert limits["fedavg", "server"]["limit"] == pytest.approx([93.96], abs=0.005)
    assert limits["fedavg_all", "server"]["distance"] == pytest.approx(40)
    assert limits["fedavg", "server"]["most_overweighted"] == 1
    assert limits["fedswe k=5", "server"]["distance"] < 2 < limits["fedswe k=0", "server"]["distance"] < 5
    assert limits["fedswe k=5", "client mean"]["distance"] == pytest.approx(0, abs=1e-9)
    assert "fedavg gives client 1 1.88 times its fair weight" in theory("bias", *words)
    curved = values("bias", *words, "task.curvature=3.0", "algorithm.lr=0.5", "local.steps=2")
    assert curved["step"] == pytest.approx(0.5 * (1 - 0.97**2))


def test_bias_elsewhere_is_a_matter_of_weights(values):
    said = values("bias", "sine", *DIGITS, "--k", "2")
    assert said["optimum"] is None
    for entry in said["limits"]:
        assert sum(entry["weights"]) == pytest.approx(1)
        assert entry["distance"] == pytest.approx(np.linalg.norm(np.array(entry["weights"]) - 1 / 6))
    assert said["limits"][0]["most_overweighted"] == int(np.argmax(said["presence"]))
    assert said["limits"][4]["distance"] < 0.1 * said["limits"][0]["distance"]


def test_rules_that_divide_their_weights_by_their_sum(values, theory):
    words = ["stationary", "availability.p=[0.1,0.2,0.4,0.8]", "task.name=quadratic", "task.centers=[[0],[1],[2],[3]]"]
    distances = {e["algorithm"]: e["distance"] for e in values("bias", *words)["limits"] if e["model"] == "server"}
    half = distances["interval_weights power=0.5"]
    assert distances["decayed_memory decay=0.9"] < half < distances["fedavg"]
    full = values("bias", *words, "algorithm.name=interval_weights", "algorithm.power=1")["limits"]
    assert next(e["distance"] for e in full if e["algorithm"] == "interval_weights power=1") < half
    longer = values("bias", *words, "algorithm.name=interval_extrapolation", "algorithm.longest=1")["limits"]
    shorter = values("bias", *words, "algorithm.name=interval_weights", "algorithm.power=1", "algorithm.least=1")[
        "limits"
    ]
    no_longer = next(e["distance"] for e in longer if e["algorithm"] == "interval_extrapolation")
    assert no_longer == pytest.approx(
        next(e["distance"] for e in shorter if e["algorithm"] == "interval_weights power=1")
    )
    assert abs(no_longer - distances["interval_extrapolation"]) > 0.1
    text = theory("bias", *words)
    assert "interval_weights, decayed_memory, interval_extrapolation: for rates that tend to 0" in text
    listed = [line for line in text.splitlines() if line.startswith("│ 3 ")]  # client 3: no cell is empty
    assert listed
    assert all(cell.strip() for line in listed for cell in line.split("│")[1:-1])
    changing = {e["algorithm"] for e in values("bias", "sine", *DIGITS)["limits"]}
    assert not [name for name in changing if name.startswith("decayed_memory")]


def test_bias_of_a_trace_and_of_chains(values, mask):
    said = values("bias", *mask[0], "--k", "3")
    fedavg, fedswe_ = said["limits"][0], said["limits"][4]
    assert fedavg["most_overweighted"] == 2
    assert fedswe_["distance"] < 0.05 * fedavg["distance"]
    said = values("bias", "markov", "availability.p=[0.3,0.6]", "--k", "3", "--horizon", 200)
    weight, error = said["limits"][0]["weights"][0], said["limits"][0]["standard_error"][0]
    coins = 0.3 * (1 - 0.6 / 2) / (0.3 * (1 - 0.6 / 2) + 0.6 * (1 - 0.3 / 2))
    assert abs(weight - coins) < 4 * error  # one round of stationary chains looks like coins, and the step is small
    assert 0 < error < 0.1


def test_a_dangerous_step_is_named(theory, mask):
    assert "echo gain" in theory("bias", *TWO, "--step", 0.5)
    assert "echo gain" not in theory("bias", *TWO)
    assert "echo gain" not in theory("bias", *mask[0], "--step", 0.5)  # a repeated trace leaves nothing to chance
