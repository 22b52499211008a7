"""fedswe theory: the numbers are those of the library, on the clients a run would have."""

import json

import numpy as np
import pytest
import torch

from fedswe.analysis.constants import measure, models_of_a_run
from fedswe.analysis.scenario import scenario
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import assemble, populate
from fedswe.registry import names
from fedswe.theory.assumption import delta_profile, smallest_period
from fedswe.theory.limits import fedavg_bias_map
from fedswe.theory.mixing import realised_rho, rho, rho_homogeneous, rho_limit, rho_monte_carlo
from fedswe.theory.rates import corollary_bound, corollary_rounds, theorem_rate_limits
from fedswe.theory.staleness import horizon_echo_quantiles, staleness_moments
from tests import problems as bench
from tests.cli.command import fedswe
from tests.theory.test_mixing import KS, REFERENCE

COMMANDS = ["assumption", "staleness", "mixing", "rates", "bias"]
TWO = ["stationary", "availability.p=[0.1,0.9]"]
DIGITS = ["task.clients=6", "task.alpha=1"]


@pytest.fixture
def theory(monkeypatch, capsys):
    """Run a command; text of its tables."""

    def call(*words):
        code, out, err = fedswe(monkeypatch, capsys, "theory", *words)
        assert (code, err) == (0, "")
        return out

    return call


@pytest.fixture
def values(theory):
    """Run a command with --json; what it says, which is strict JSON and nothing else."""

    def call(*words):
        def constant(text):
            raise AssertionError(f"{text} is not JSON")

        return json.loads(theory(*words, "--json"), parse_constant=constant)

    return call


@pytest.fixture
def mask(tmp_path):
    """A record of three clients whose probabilities are known to the test only."""
    present = np.random.default_rng(2).random((400, 3)) < [0.2, 0.5, 0.8]
    np.savetxt(tmp_path / "mask.csv", present, fmt="%d", delimiter=",")
    return ["mask", f"availability.file={tmp_path}/mask.csv"], present


# whom a command is about -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [n for n in names("availability") if n != "mask"])
def test_the_clients_are_those_of_a_run(name):
    value = load(None, [f"availability.name={name}", *DIGITS, "rounds=60"])
    run, here = assemble(value).schedule, scenario(value, name, 60, True)
    for t in (0, 7, 59):
        np.testing.assert_array_equal(run.sample(t), here.trace[t])
        np.testing.assert_allclose(run.prob(t), here.prob[t], rtol=0, atol=1e-12)  # a sine's last digit


def test_the_released_codes_stream_as_well():
    value = load(None, ["availability.stream=legacy", *DIGITS, "rounds=5"])
    np.testing.assert_array_equal(
        np.stack([assemble(value).schedule.sample(t) for t in range(5)]), scenario(value, "sine", None, True).trace
    )


def test_a_name_a_file_and_overrides_mean_the_same(values, tmp_path):
    (tmp_path / "a.toml").write_text(
        'rounds = 40\n[availability]\nname = "staircase"\nlow = 0.3\n[task]\nclients = 6\nalpha = 1\n'
    )
    answers = [
        values("assumption", tmp_path / "a.toml"),
        values("assumption", "staircase", "availability.low=0.3", *DIGITS, "rounds=40"),
        values("assumption", "availability.name=staircase", "availability.low=0.3", *DIGITS, "--horizon", 40),
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["clients"] == 6
    assert values("assumption", tmp_path / "a.toml", "cyclic")["availability"] == "cyclic"


def test_the_clients_of_a_file_are_counted_below_its_comment(values, tmp_path):
    (tmp_path / "mask.csv").write_text("# who was there\n\n" + "1,0,1\n0,1,1\n" * 3)
    assert values("staleness", "mask", f"availability.file={tmp_path}/mask.csv")["clients"] == 3


def test_an_availability_that_lists_clients_needs_no_task(values, mask):
    assert values("assumption", *TWO)["clients"] == 2
    assert values("staleness", *mask[0])["clients"] == 3
    assert values("assumption", "always")["clients"] == 50  # of the default task


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["sine", "markov", "mask"])
def test_every_command_prints_and_draws(command, name, theory, tmp_path, mask):
    words = mask[0] if name == "mask" else [name, "availability.p=[0.3,0.5,0.6]"]
    words += ["task.name=quadratic", "task.centers=[1.0,2.0,6.0]", "local.lr=0.001", "rounds=60"]
    more = ["--horizon", 200] if command == "bias" else []
    more += ["--draws", 40] if command in ("mixing", "rates") and name == "markov" else []
    file = tmp_path / f"{command}.{'pdf' if command == 'mixing' else 'svg' if command == 'rates' else 'png'}"
    text = theory(command, *words, *more, "--plot", file)
    assert f"{name}: 3 clients" in text
    assert "┃" in text
    assert f"figure    {file}" in text
    assert file.read_bytes().startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[file.suffix])
    assert [p.name for p in tmp_path.iterdir() if p.name != "mask.csv"] == [file.name]
    if name == "markov":
        assert "not independent" in text
    if name == "mask":
        assert "one trace of 0 and 1" in text


# the numbers -----------------------------------------------------------------------------------------------
def test_assumption(values):
    words = ["alternating", "availability.p=[0.4,0.2,0.5,1.0]", "availability.period=10"]
    said = values("assumption", *words, "--horizon", 60, "--delta", "0.1,0.02,0.4")
    prob = np.tile(np.repeat([[0.4, 0.2, 0, 0], [0, 0, 0.5, 1.0]], 5, axis=0), (6, 1))
    assert (said["period"], said["delta"], said["delta_max"]) == (10, pytest.approx(0.1), 1)
    np.testing.assert_allclose(said["profile"], delta_profile(prob), atol=1e-12)
    periods = [entry["period"] for entry in said["smallest_periods"]]
    assert periods == [smallest_period(delta_profile(prob), 0.1), smallest_period(delta_profile(prob), 0.02), None]


def test_assumption_of_a_trace_covers_the_truth(values, mask):
    said = values("assumption", *mask[0], "--period", 100, "--delta", "0.05")
    for estimate in (said["delta"], said["delta_if_windows_repeat"]):
        assert estimate["lower"] <= 0.2 <= estimate["upper"]
        assert estimate["confidence"] == 0.95
    assert said["delta"]["lower"] < said["delta_if_windows_repeat"]["lower"]
    assert said["smallest_periods"][0]["certified"] > 1
    narrow = values("assumption", *mask[0], "--period", 100, "--confidence", 0.5)
    assert narrow["delta"]["lower"] > said["delta"]["lower"]


def test_staleness(values, theory):
    said = values("staleness", *TWO, "--horizon", 50, "--quantiles", "0.5,0.9,1")
    prob = np.tile([[0.1, 0.9]], (50, 1))
    moments = staleness_moments(prob)
    assert said["first_moment"]["largest"] == pytest.approx(moments.first[49].max())
    assert said["second_moment"]["mean"] == pytest.approx(moments.second[:50].mean())  # rounds 0..49, as of a trace
    assert (said["first_moment"]["client"], said["first_moment"]["round"]) == (0, 49)
    assert said["safe_bounds"] == pytest.approx([10, 190])
    echoes = [entry["echo"] for entry in said["echo_quantiles"]]
    assert echoes == list(horizon_echo_quantiles(prob, [0.5, 0.9, 1]))
    # client 1 can never be there: staleness has an answer all the same, bounds have not
    assert "no bounds: client 1 has probability 0" in theory("staleness", "stationary", "availability.p=[0.5,0.0]")


def test_a_printed_bound_that_is_exceeded_is_named(theory, tmp_path):
    """The counterexample of the errata, as a file of probabilities."""
    prob = np.zeros((200, 1))
    prob[:10] = prob[190:] = 1.0
    for name in ("mask.csv", "prob.csv"):
        np.savetxt(tmp_path / name, prob, fmt="%d", delimiter=",")
    words = ["mask", f"availability.file={tmp_path}/mask.csv", f"availability.prob_file={tmp_path}/prob.csv"]
    text = theory("staleness", *words, "--period", 100)
    assert "181" in text
    assert "a printed bound is exceeded" in text


def test_staleness_of_a_trace(values, mask):
    said = values("staleness", *mask[0], "--quantiles", "0.5")
    assert said["per_client"]["participations"] == mask[1].sum(axis=0).tolist()
    gaps = np.concatenate([np.diff(np.flatnonzero(column), prepend=-1) for column in mask[1].T])
    assert said["echo_quantiles"][0]["echo"] == np.quantile(gaps, 0.5, method="inverted_cdf")
    assert said["tau_max"] >= gaps.max()


def test_staleness_of_chains(values):
    """Two-state chains: E[t - tau(t)] = 1 + (1 - p)(1 - (1 - on)^t)/on, five times what coins would give."""
    said = values("staleness", "markov", "availability.p=[0.5,0.5]", "availability.on=0.1", "--horizon", 100)
    t = np.arange(100)
    exact = np.mean(1 + 0.5 * (1 - 0.9**t) / 0.1)
    moment = said["first_moment"]
    assert abs(moment["mean"] - exact) < 4 * moment["standard_error"] < 1.5
    assert moment["independent_coins"] == pytest.approx(2, abs=0.05)


def test_mixing(values):
    said = values("mixing", "stationary", f"availability.p={[0.3] * 10}", "--k", ",".join(map(str, KS)))
    assert [entry["rho"] for entry in said["rho"]] == pytest.approx(REFERENCE[0.3], abs=5e-5)
    assert said["limit_of_large_k"] == pytest.approx(0.7)
    assert all(e["rho"] <= e["bound"]["bound"] <= 1 for e in said["rho"])
    assert said["rho"][4]["bound_as_printed"]["bound"] < 0
    assert [e["rho"] for e in values("mixing", "always", *DIGITS, "--k", "0,1,10")["rho"]] == [0, 0, 0]
    groups = ["alternating", f"availability.p={[0.1] * 5 + [0.5] * 5}", "availability.period=20"]
    said = values("mixing", *groups, "--k", "0,1")
    assert [e["rho"] for e in said["rho"]] == pytest.approx([1, 0.696], abs=1e-3)
    drawn = values("mixing", *groups, "--k", "1", "--draws", 300)["rho"][0]
    assert drawn["interval"][0] <= 0.696 <= drawn["interval"][1]


def test_the_window_is_the_period_or_how_long_chains_stay_off(values):
    periodic = scenario(load(None, ["availability.name=sine", "availability.p=0.7", *DIGITS]), "sine", 60, True)
    assert periodic.window(None) == 20
    np.testing.assert_array_equal(periodic.prob[:20], periodic.prob[40:])  # to the last digit: one window, not three
    chains = ["markov", "availability.p=[0.5,0.5]", "availability.on=0.1"]
    assert values("mixing", *chains, "--k", "1", "--draws", 20)["period"] == 10


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
    entry = said["by_k"][1]
    mixing = {"rho": rho([[0.5, 0.5, 0.8, 1.0]], 4), "delta": 0.5, "period": 1, "clients": 4, "k": 4}
    assert entry["rho"] == pytest.approx(mixing["rho"])
    limits = theorem_rate_limits(**mixing, steps=3, smoothness=said["smoothness"], beta=said["beta"])
    assert entry["rate_limits"]["product"] == pytest.approx(limits.product)
    assert entry["corollary_rounds"] == pytest.approx(corollary_rounds(**mixing, steps=3, beta=said["beta"]), rel=1e-9)
    known = {n: said[n] for n in ("initial_gap", "smoothness", "sigma_squared", "zeta", "delta_max")}
    bound = corollary_bound(**mixing, **known, steps=3, rounds=50)
    assert entry["bound"]["total"] == pytest.approx(bound.total)


def test_no_rate_is_admitted_where_clients_never_mix(values, theory, tmp_path):
    words = ["alternating", "availability.p=[1.0,1.0]", "availability.period=2", "task.name=quadratic", "rounds=20"]
    assert values("rates", *words, "--k", "0")["by_k"][0]["rate_limits"] is None
    assert "never" in theory("rates", *words, "--k", "0,1")
    theory("rates", *words, "--k", "0", "--plot", tmp_path / "a.svg")
    assert "for none of these k" in (tmp_path / "a.svg").read_text()


def test_constants_of_a_real_task():
    """The digits: dissimilarity by hand, no noise with full batches, curvature of the softmax below its bound."""
    problem = bench.digits(m=5)
    engine = bench.engine("batched", load(None).algorithm, problem, np.ones((9, 5), dtype=bool))
    points = models_of_a_run(engine, 8, 3)
    assert engine.t == 8
    np.testing.assert_array_equal(points[0], problem.start)
    found = measure(problem, points, batch_size=10**6, draws=2)
    assert found.variance.value == 0
    for n, x in enumerate(points):
        gradients = np.stack([problem.full_gradients(*inputs(x, i))[0] for i in range(5)])
        assert found.dissimilarity.divergence[n] == pytest.approx(gradients.var(axis=0).sum())
    noisy = measure(problem, points[:1], batch_size=4, draws=30)
    assert noisy.variance.value > 0.1
    assert noisy.variance.largest_bias < 6 * np.sqrt(noisy.variance.value / 30)
    assert 0.5 < found.smoothness.value < 65 / 2  # features in [0, 1] and a bias: the Hessian is at most ||x||^2/2


def inputs(x, i):
    return torch.as_tensor(x)[None], torch.tensor([i])


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


# the figures of the paper ----------------------------------------------------------------------------------
def test_figures(values, theory, tmp_path):
    two = values("figure", 2)
    assert np.array(two["distance"], dtype=float)[10, 90] == pytest.approx(43.96, abs=0.005)  # p = (0.1, 0.9)
    assert two["distance"][0][0] is None  # nobody ever takes part
    four = values("figure", 4)
    for curve in four["one_round"]:
        assert [curve["rho"][k] for k in KS if k <= 50] == pytest.approx(REFERENCE[curve["p"]][:7], abs=5e-5)
        assert curve["p"] == 1 or np.all(np.diff(curve["rho"]) < 0)
    for curve in four["two_groups"]:
        assert curve["rho"][0] == pytest.approx(1)
        assert np.all(np.diff(curve["rho"]) < 0)
        assert curve["rho"][-1] > curve["limit"]
    five = values("figure", 5)
    for run, amplitude in zip(five["runs"], (100, 0.990), strict=True):
        assert run["cycle"] == pytest.approx([amplitude, -amplitude], abs=5e-4)
        assert abs(run["server"][-1]) == pytest.approx(amplitude, rel=0.02)
        assert np.mean(np.array(run["clients"])[:, -1]) == pytest.approx(0, abs=0.01)
    for number in (2, 4, 5):
        theory("figure", number, "--plot", tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 20000
    assert rho_homogeneous(10, 0.5, 10) == pytest.approx(four["one_round"][2]["rho"][10])
    assert fedavg_bias_map([0.5], [0.5])[0, 0] == pytest.approx(two["distance"][50][50])


# mistakes --------------------------------------------------------------------------------------------------
PLAIN = ["stationary", "availability.p=0.5", *DIGITS]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mixing", *PLAIN, "--k", "0,-1"], "k = -1.0 must be a finite number, at least 0"),
        (["rates", *PLAIN, "--k=-2"], "k = -2.0 must be a finite number, at least 0"),
        (["bias", *PLAIN, "--k=-2"], "k = -2.0 must be a finite number, at least 0"),
        (["mixing", *PLAIN, "--k", "1e-300"], "k = 1e-300 cannot be told from 0"),
        (["bias", *PLAIN, "--k", "1e300"], "k = 1e+300 cannot be told from 0 or from infinity"),
        (["mixing", *PLAIN, "--k", "many"], "--k must be numbers"),
        (["mixing", *PLAIN, "--k", ","], "--k is empty"),
        (["mixing", "stationary", "availability.p=[0.5]", "--k", "0"], "one client and k = 0 have nothing to mix"),
        (["mixing", *PLAIN, "--draws", "-1"], "--draws must be 0"),
        (["mixing", *PLAIN, "--draws", "2"], "2 draws are too few"),
        (["mixing", "markov", *DIGITS, "--confidence", "1"], "confidence 1.0 must lie strictly between 0 and 1"),
        (["assumption", "stationary", "availability.p=1.2"], "p must be within [0, 1]"),
        (["assumption", "stationary", "availability.p=[0.5,0.0]"], "client 1 has probability 0 in every round"),
        (["rates", "stationary", "availability.p=[0.5,0.0]", "task.name=quadratic"], "client 1 has probability 0"),
        (["bias", "stationary", "availability.p=[0.5,0.0]"], "client 1 is never available"),
        (["assumption", "alternating", *DIGITS, "--horizon", "50"], "50 rounds are shorter than the period 100"),
        (["bias", "alternating", *DIGITS, "--horizon", "50"], "50 rounds are shorter than the period 100"),
        (["staleness", "alternating", *DIGITS, "rounds=50"], "50 rounds are shorter than the period 100"),
        (["mixing", *PLAIN, "--period", "600"], "--period 600 must be between 1 and the 500 rounds"),
        (["assumption", *PLAIN, "--delta", "0"], "delta 0.0 must lie in (0, 1]"),
        (["assumption", *PLAIN, "--horizon", "0"], "--horizon 0 must be at least 1"),
        (["staleness", *PLAIN, "--quantiles", "2"], "--quantiles must be numbers in (0, 1]"),
        (["bias", "markov", *DIGITS, "--horizon", "5"], "client 0 is not available in any of 5 simulated rounds"),
        (["bias", *PLAIN, "--step", "0"], "--step 0.0 must be a positive number"),
        (["bias", *PLAIN, "--step", "inf"], "--step inf must be a positive number"),
        (["staleness", "markov", "availability.p=[0.0,0.0]"], "all probabilities are 0"),
        (["staleness", "markov", *DIGITS, "--period", "5"], "--period is the window of the bounds"),
        (["bias", *PLAIN, "--step", "3"], "does not settle"),
        (["bias", *TWO, "task.name=quadratic", "task.curvature=2", "local.lr=1"], "local.lr = 1 drives clients away"),
        (["bias", *TWO, "task.name=quadratic", "local.lr=2.5", "local.steps=3"], "local.lr = 2.5 drives clients away"),
        (["rates", *TWO, "task.name=quadratic", "local.lr=10"], "the run has diverged by round 20: lower local.lr"),
        (["bias", *TWO, "task.name=quadratic", "task.curvature=[1.0,2.0]"], "need equal curvatures"),
        (["rates", *PLAIN, "--points", "0"], "0 points"),
        (["rates", *PLAIN, "--along", "-1"], "--along -1"),
        (["staleness", "sin"], "'sin' is neither a file nor an availability: did you mean sine?"),
        (["staleness", "sine", "cyclic"], "one availability at a time"),
        (["staleness", "nowhere.toml"], "cannot read nowhere.toml"),
        (["staleness", "availability.q=1"], "unknown key availability.q"),
        (["figure", "3"], "figure 3 is not computed here: choose 2, 4 or 5"),
    ],
)  # fmt: skip
def test_mistakes(words, message, monkeypatch, capsys, tmp_path):
    file = tmp_path / "a.png"
    code, out, err = fedswe(monkeypatch, capsys, "theory", *words, "--json", "--plot", file)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (["1,0,1"] * 5, [], "client 1 is absent in all 5 rounds"),
        (["1,0,1"] * 5, ["--period", "2"], "windows of 2 rounds in the trace: 2, too few for an interval"),
        (["1,1,1"] * 5, ["--horizon", "6"], "--horizon 6 is longer than the 5 rounds of the file"),
        (["1,2,1"] * 5, [], "must hold only 0 and 1"),
        (["1,1,1"] * 5, ["--draws", "100"], "--draws simulates windows, but the windows of a trace are given"),
        (["1,0,1", "1,0"], [], "is not a CSV of numbers, rows of equal length"),
        (["1,0,1"] * 5, ["task.name=quadratic"], "has 3 columns for 2 clients"),
    ],
)
def test_mistakes_of_a_trace(rows, more, message, monkeypatch, capsys, tmp_path):
    (tmp_path / "mask.csv").write_text("\n".join(rows) + "\n")
    words = ["mixing", "mask", f"availability.file={tmp_path}/mask.csv", "--k", "1", *more]
    code, out, err = fedswe(monkeypatch, capsys, "theory", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.jpg", "must end in .png, .svg, .pdf"), ("plot", "must end in"), ("none/a.png", "there is no folder")],
)
def test_a_figure_that_cannot_be_written(name, message, monkeypatch, capsys, tmp_path):
    code, out, err = fedswe(monkeypatch, capsys, "theory", "figure", 2, "--plot", tmp_path / name)
    assert (code, out) == (2, "")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_a_figure_is_whole_or_not_there(monkeypatch, capsys, tmp_path):
    from matplotlib.figure import Figure

    old = tmp_path / "a.png"
    old.write_text("an older figure")

    def full_disk(self, file, **options):
        file.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    code, _, err = fedswe(monkeypatch, capsys, "theory", "figure", 2, "--plot", old)
    assert code == 2
    assert "No space left" in err
    assert old.read_text() == "an older figure"
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_populate_is_what_assemble_uses():
    value = load(None, [*DIGITS, "rounds=5"])
    problem, schedule = populate(value)
    engine = assemble(value)
    np.testing.assert_array_equal(problem.start, engine.problem.start)
    np.testing.assert_array_equal(schedule.sample(3), engine.schedule.sample(3))
