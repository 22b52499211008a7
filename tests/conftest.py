"""Deterministic tests: one thread, keyed randomness, hypothesis without its clock."""

import os
import sys
import tempfile

import hypothesis
import pytest
import torch

from fedswe import errors

# Ledgers of tests are sealed with a key of the tests, also in processes they start.
os.environ.setdefault(
    "FEDSWE_LEDGER_KEY", os.path.join(tempfile.gettempdir(), f"fedswe-tests-{os.getuid()}", "ledger.key")
)
torch.set_num_threads(1)  # tiny models; threads only add noise
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def same_path():
    """Files of users' classes add their folder to the path; another test must not find them there."""
    before = list(sys.path)
    errors._WARNED.clear()
    yield
    sys.path[:] = before
