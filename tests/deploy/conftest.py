"""Fixtures of the deployment tests."""

import pytest

from tests.deploy.storm import in_memory


@pytest.fixture
def scratch():
    """A folder for tests that sync files often."""
    with in_memory() as folder:
        yield folder
