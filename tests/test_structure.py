"""The rules of the house: arrows between rooms point one way, and tests assert."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "fedswe"

# room -> rooms it may import
ARROWS = {
    "errors": set(),
    "core": {"errors"},
    "algorithms": {"core", "errors"},
    "availability": {"core", "errors"},
    "datasets": {"errors"},
    "tasks": {"availability", "core", "datasets", "errors"},
    "engine": {"availability", "core", "errors", "tasks", "theory"},  # theory: the formulas of the probes
    "theory": {"errors"},
    "workers": set(),
    "deploy": {
        "algorithms",
        "availability",
        "config",
        "core",
        "engine",
        "errors",
        "experiment",
        "results",
        "tasks",
    },
    "reports": {"algorithms", "availability", "engine", "errors", "experiment", "tasks", "theory"},
    "reproduce": {
        "algorithms",
        "availability",
        "config",
        "errors",
        "experiment",
        "plots",
        "reports",
        "results",
        "run",
        "tasks",
        "theory",
        "workers",
    },
}


def room(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("fedswe."))


def test_arrows():
    checked = set()
    for path in SOURCE.rglob("*.py"):
        if room(path) in ARROWS:
            checked.add(room(path))
            wrong = set(imported_rooms(path)) - ARROWS[room(path)] - {room(path)}
            assert not wrong, f"{path.relative_to(SOURCE)} must not import {wrong}"
    assert checked == set(ARROWS)


def test_the_simulator_needs_only_torch_and_numpy():
    """What a bare GPU machine runs must not need the command line's libraries."""
    heavy = {"pydantic", "typer", "rich", "safetensors", "matplotlib", "tomli_w"}
    for name in ("core", "algorithms", "availability", "tasks", "engine", "theory"):
        for path in (SOURCE / name).rglob("*.py"):
            tree = ast.parse(path.read_text())
            found = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
            found |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
            assert not found & heavy, path


def test_every_test_asserts():
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                text = ast.dump(node)
                assert "Assert(" in text or "raises" in text or "assert_" in text, f"{path.name}: {node.name}"
