"""fedswe theory: every command prints and draws; wrong input is one line; the figures of the paper."""

import numpy as np
import pytest

from fedswe.theory.limits import fedavg_bias_map
from fedswe.theory.mixing import rho_homogeneous
from tests.cli.command import fedswe
from tests.theory.test_mixing import KS, REFERENCE

COMMANDS = ["assumption", "staleness", "mixing", "rates", "bias"]
TWO = ["stationary", "availability.p=[0.1,0.9]"]
DIGITS = ["task.clients=6", "task.alpha=1"]


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


PLAIN = ["stationary", "availability.p=0.5", *DIGITS]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mixing", *PLAIN, "--k", "0,-1"], "k = -1.0 must be a finite number, at least 0"),
        (["mixing", *PLAIN, "--k", "many"], "--k must be numbers"),
        (["mixing", *PLAIN, "--k", ","], "--k is empty"),
        (["mixing", *PLAIN, "--draws", "-1"], "--draws must be 0"),
        (["assumption", "stationary", "availability.p=[0.5,0.0]"], "client 1 has probability 0 in every round"),
        (["bias", "stationary", "availability.p=[0.5,0.0]"], "client 1 is never available"),
        (["assumption", "alternating", *DIGITS, "--horizon", "50"], "50 rounds are shorter than the period 100"),
        (["mixing", *PLAIN, "--period", "600"], "--period 600 must be between 1 and the 500 rounds"),
        (["assumption", *PLAIN, "--horizon", "0"], "--horizon 0 must be at least 1"),
        (["staleness", *PLAIN, "--quantiles", "2"], "--quantiles must be numbers in (0, 1]"),
        (["bias", "markov", *DIGITS, "--horizon", "5"], "client 0 is not available in any of 5 simulated rounds"),
        (["bias", *PLAIN, "--step", "0"], "--step 0.0 must be a positive number"),
        (["staleness", "markov", *DIGITS, "--period", "5"], "--period is the window of the bounds"),
        (["bias", *TWO, "task.name=quadratic", "task.curvature=2", "local.lr=1"], "local.lr = 1 drives clients away"),
        (["bias", *TWO, "task.name=quadratic", "task.curvature=[1.0,2.0]"], "need equal curvatures"),
        (["rates", *PLAIN, "--smoothness", "0"], "smoothness = 0 must be positive"),
        (["staleness", "sin"], "'sin' is neither a file nor an availability: did you mean sine?"),
        (["staleness", "sine", "cyclic"], "one availability at a time"),
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


@pytest.mark.filterwarnings("ignore:.*never available:fedswe.errors.FedsweWarning")
@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (["1,0,1"] * 5, [], "client 1 is absent in all 5 rounds"),
        (["1,0,1"] * 5, ["--period", "2"], "windows of 2 rounds in the trace: 2, too few for an interval"),
        (["1,1,1"] * 5, ["--horizon", "6"], "--horizon 6 is longer than the 5 rounds of the file"),
        (["1,2,1"] * 5, [], "must hold only 0 and 1"),
        (["1,1,1"] * 5, ["--draws", "100"], "--draws simulates windows, but the windows of a trace are given"),
        (["1,0,1", "1,0"], [], "mask.csv: line 2: '' is not a number"),
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
    old = tmp_path / "a.png"
    old.write_text("an older figure")
    (tmp_path / ".a.png.part").symlink_to("/dev/full")  # where the figure is written before it is renamed
    code, _, err = fedswe(monkeypatch, capsys, "theory", "figure", 2, "--plot", old)
    assert code == 2
    assert "No space left" in err
    assert old.read_text() == "an older figure"
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
