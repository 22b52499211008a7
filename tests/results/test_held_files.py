"""Locks are seen without being touched."""

import os

import pytest

from fedswe.results.held_files import file_of, held_files
from fedswe.results.locks import Claim


@pytest.mark.skipif(held_files() is None, reason="this system does not list locks")
def test_a_claimed_file_is_held_until_it_is_released(tmp_path):
    path = tmp_path / "a.lock"
    claim = Claim(path)
    assert file_of(os.stat(path)) in held_files()
    claim.release()
    assert file_of(os.stat(path)) not in held_files()
