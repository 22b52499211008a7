"""Commands of fedswe theory, and a trace to give them."""

import json

import numpy as np
import pytest

from tests.cli.command import fedswe


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
