"""Rules of the source tree that no linter checks."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_test_asserts():
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                text = ast.dump(node)
                assert "Assert(" in text or "raises" in text or "assert_" in text, f"{path.name}: {node.name}"
