"""Files for people and for the pages of a repository: they parse, and what they name is there."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from fedswe import __version__

ROOT = Path(__file__).parents[1]
TEXTS = ["CONTRIBUTING.md", "SECURITY.md", ".github/pull_request_template.md"]
MAKE = (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", TEXTS)
def test_named_files_and_targets_exist(name):
    text = (ROOT / name).read_text()
    words = [word for quoted in re.findall(r"`([^`\n]+)`", text) for word in quoted.split()]
    own = ("./", ".venv", "tests/PACKAGE")
    files = [w for w in words if not w.startswith(own) and re.fullmatch(r"[\w.-]+(/[\w.-]*)+|[\w-]+\.(md|toml|txt)", w)]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []
    targets = re.findall(r"`make ([\w-]+)`", text)
    assert [target for target in targets if not re.search(rf"^{target}:", MAKE, re.MULTILINE)] == []


def test_citation():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= cited.keys()
    assert (cited["cff-version"], cited["version"], cited["type"]) == ("1.2.0", __version__, "software")
    assert cited["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    for paper in (cited["preferred-citation"], *cited["references"]):
        assert {"type", "title", "authors", "year"} <= paper.keys()
        from fedswe.algorithms import FedAWE, FedSWE

        # The same title and people as `fedswe show` names.
        assert any(paper["title"] in " ".join(cls.citation.split()) for cls in (FedSWE, FedAWE))
        names = ", ".join(author["family-names"] for author in paper["authors"])
        assert FedSWE.citation.startswith(names)


def test_hooks_are_the_steps_of_make_lint():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]  # nothing is downloaded
    entries = [hook["entry"].replace(" --fix", "") for hook in hooks[0]["hooks"]]
    steps = re.search(r"^lint:.*\n((?:\t.*\n)+)", MAKE, re.MULTILINE)[1].replace("$(BIN)", ".venv/bin")
    assert entries == [step.strip().replace(" --check", "") for step in steps.splitlines()]
    assert all(hook["language"] == "system" for hook in hooks[0]["hooks"])
