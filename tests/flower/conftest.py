import pytest

from fedswe.flower import strategy
from tests import problems
from tests.flower.test_parity import M


@pytest.fixture(scope="session")
def problem():
    """As many clients as tests of the store and of parity have; tests of wrappers use the first of them."""
    return problems.quadratic(M, d=5)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """A round is repeated at once."""
    monkeypatch.setattr(strategy, "_PAUSES", (0,) * 5)
