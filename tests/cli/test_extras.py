"""A package that only an extra installs is named in one line, and what needs none works without."""

import subprocess
import sys

import pytest

from tests.cli.command import fedswe

QUICK = ["task.clients=10", "task.alpha=1", "rounds=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from fedswe.experiment.configuration import load
    from fedswe.experiment.runner import run

    place = tmp_path_factory.mktemp("runs") / "one"
    run(load(None, QUICK), place)
    return str(place)


@pytest.mark.parametrize(
    ("module", "extra", "words"),
    [
        ("matplotlib", "plot", ["plot", "{run}", "--out", "x.png"]),
        ("platformdirs", "data", ["data", "list"]),
        ("pooch", "data", ["data", "fetch", "svhn", "--root", "data"]),
        ("onnx", "onnx", ["export", "{run}", "--format", "onnx"]),
        ("flwr", "flower", ["flower", "status", "federation.db"]),
        ("tensorboard", "tensorboard", ["run", *QUICK, "track=tensorboard"]),
        ("pyarrow", "paper", ["gym", "--scale", "ci", "--rules", "fedavg", "--tasks", "digits", "--out", "gym"]),
    ],
)
def test_a_missing_extra_is_one_line(module, extra, words, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDSWE_DATA", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == module or name.startswith("fedswe.flower")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    code, _, err = fedswe(monkeypatch, capsys, *(word.replace("{run}", run) for word in words))
    assert (code, err.count("\n"), err[:7]) == (2, 1, "error: "), err
    assert module in err
    assert f"pip install 'fedswe[{extra}]'" in err


WITHOUT = """
import sys
for module in ("matplotlib", "platformdirs", "pooch", "PIL", "pyarrow", "onnx", "flwr", "tensorboard", "mlflow"):
    sys.modules[module] = None
from fedswe.cli import main
main()
"""


@pytest.mark.parametrize(
    "words", [["run", *QUICK], ["compare", *QUICK, "--algorithms", "fedavg,fedswe", "--jobs", "1"], ["doctor"]]
)
def test_what_needs_no_extra_works_without(words, tmp_path):
    command = [sys.executable, "-c", WITHOUT, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
