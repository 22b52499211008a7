"""The notebooks of examples/ run, and print what is stored in them."""

import nbformat
import pytest

from tests.notebook import EXAMPLES, executed, texts

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that run a kernel
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    stored = nbformat.read(path, as_version=4)
    found = executed(path, tmp_path)
    assert texts(found) == texts(stored)
    shown = [output for cell in found.cells for output in cell.get("outputs", []) if "data" in output]
    assert "image/png" in shown[-1].data
    assert any(texts(stored))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_valid_and_small(path):
    nbformat.validate(nbformat.read(path, as_version=4))
    assert path.stat().st_size < 300_000
    assert "/home/" not in path.read_text()
