"""What the README shows works."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_its_python_runs(capsys):
    exec(re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1), {})
    server, mean = map(float, capsys.readouterr().out.split())
    assert mean < server


def test_its_two_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "test"):
        assert f"$ make {target}" in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_its_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
