"""Server and clients in one process need the memory of a few models, however many clients report."""

import json
import subprocess
import sys

import pytest


def used(scratch, *words):
    """What `tests.deploy.wide` measures in a process of its own."""
    command = [sys.executable, "-m", "tests.deploy.wide", *map(str, words), str(scratch)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("name", ["fedswe", "mifa"])  # state at the clients, and rows of them at the server
def test_memory_does_not_grow_with_the_clients(scratch, name):
    found = used(scratch, name, 150, 200_000, 2)
    assert found["grown_mb"] < 60  # 150 models are 114 MB


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["fedswe", "fedavg"])
def test_a_thousand_clients_with_a_million_parameters_in_a_gigabyte(tmp_path, name):
    found = used(tmp_path, name, 1000, 1_000_000, 2)
    print(name, found)
    assert found["peak_mb"] < 1000
