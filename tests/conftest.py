"""Deterministic tests: one thread, keyed randomness, hypothesis without its clock."""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the processes that tests start, too

import hypothesis
import pytest
import torch

from fedswe import errors

torch.set_num_threads(1)  # tiny models; threads only add noise
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("repeatable")


def pytest_collection_modifyitems(items):
    """Flower's tests come first: they wait much, and one worker runs them while the others compute."""
    items.sort(key=lambda item: item.get_closest_marker("flower") is None)


@pytest.fixture(autouse=True)
def same_path():
    """Files of users' classes add their folder to the path; another test must not find them there."""
    before = list(sys.path)
    errors._WARNED.clear()
    yield
    sys.path[:] = before
