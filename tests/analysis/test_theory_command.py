"""fedswe theory: every command prints and draws; wrong input is one line."""

import pytest

from tests.cli.command import fedswe

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
    code, out, err = fedswe(monkeypatch, capsys, "theory", "staleness", *TWO, "--plot", tmp_path / name)
    assert (code, out) == (2, "")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_a_figure_is_whole_or_not_there(monkeypatch, capsys, tmp_path):
    old = tmp_path / "a.png"
    old.write_text("an older figure")
    (tmp_path / ".a.png.part").symlink_to("/dev/full")  # where the figure is written before it is renamed
    code, _, err = fedswe(monkeypatch, capsys, "theory", "staleness", *TWO, "--plot", old)
    assert code == 2
    assert "No space left" in err
    assert old.read_text() == "an older figure"
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
