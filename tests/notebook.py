"""Execute a notebook in a fresh kernel. `python -m tests.notebook` stores the outputs of those in examples/."""

import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"


def executed(path, folder):
    """The notebook with its outputs; its files go to `folder`. An exception in a cell is raised here."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the times of this execution
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


def texts(notebook):
    """What each cell prints or shows as text."""
    found = []
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        parts = [o.text if o.output_type == "stream" else o.data.get("text/plain", "") for o in outputs]
        found.append(re.sub(r"<Figure size \S+", "<Figure", "".join(parts)))  # its size is a matter of style
    return found


if __name__ == "__main__":
    import tempfile

    for path in EXAMPLES.glob("*.ipynb"):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, folder), path)
