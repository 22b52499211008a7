"""Fixtures of the tests of the live page."""

import pytest

from tests.browser import browser, chromium  # noqa: F401
from tests.live.server import LiveServer, Runs


@pytest.fixture
def watch(tmp_path):
    """Starts `fedswe watch` on a directory, as a process of its own; ends all of them with the test."""
    started = []

    def start(*directories, port=0):
        started.append(LiveServer(directories, port))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def runs():
    started = Runs()
    yield started
    started.end()
