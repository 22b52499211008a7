"""Fixtures of the deployment tests."""

import os

import pytest

from tests.deploy.storm import in_memory


@pytest.fixture
def scratch():
    """A folder for tests that sync files often."""
    with in_memory() as folder:
        yield folder


@pytest.fixture(autouse=True)
def umask():
    """Endpoints and trials make the files of their process private; other tests are to run as before."""
    before = os.umask(0o022)
    yield
    os.umask(before)
