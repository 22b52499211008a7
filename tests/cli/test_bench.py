"""fedswe bench measures, and says what it measured."""

import json

import pytest
import torch

from tests.cli.command import fedswe


def test_bench(monkeypatch, capsys):
    words = ["bench", "--workloads", "softmax", "--repetitions", 2, "--seconds", 0.1]
    code, text, progress = fedswe(monkeypatch, capsys, *words, "--json")
    assert code == 0
    (result,) = json.loads(text)
    assert "measurements 2/2" in progress
    assert result["workload"] == "softmax"
    assert min(result["client_steps_per_s"], result["plain_steps_per_s"]) > 0  # how fast is for a quiet machine to say
    assert result["ratio"] == pytest.approx(result["client_steps_per_s"] / result["plain_steps_per_s"])
    assert result["peak_memory_gb"] > 0
    code, text, _ = fedswe(monkeypatch, capsys, *words, "--repetitions", 1)
    assert code == 0
    assert "ratio" in text
    assert "threads of fedswe and of the plain loop: softmax 1 and 1" in text
    assert "…" not in text  # no cell is cut


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workloads", "resnet"], "--workloads must be"),
        (["--precision", "fp8"], "--precision must be one of"),
        (["--repetitions", "0"], "--repetitions must be at least 1"),
        (["--seconds", "0"], "--seconds must be positive"),
        (["--device", "cuda"], "no GPU is visible"),
    ],
)
def test_mistakes(words, message, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # one line of the list is about that
    code, _, err = fedswe(monkeypatch, capsys, "bench", *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
