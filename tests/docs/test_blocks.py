"""Every command and every code block of the pages runs, and prints what the pages show."""

import re

import pytest

from tests.docs.blocks import PAGES, REASONS, ROOT, RUN, SHOWN, blocks
from tests.docs.prepared import PREPARED
from tests.docs.reader import Reader

WITH_BLOCKS = [page for page in PAGES if any(block.language in RUN for block in blocks(page))]
FLOWER = {"docs/flower.md", "docs/machines.md"}  # start real Flower processes
ALWAYS = {"README.md", "docs/tutorial.md"}


def _marked(page):
    marks = [] if page in ALWAYS else [pytest.mark.flower if page in FLOWER else pytest.mark.exhaustive]
    return pytest.param(page, marks=marks)


@pytest.mark.parametrize("page", [_marked(page) for page in WITH_BLOCKS])
def test_a_reader_gets_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    reader = Reader(tmp_path)
    PREPARED.get(page, lambda _: None)(reader)
    done = 0
    for block in blocks(page):
        if block.language in RUN and not block.not_run:
            reader.follow(block)
            done += 1
    assert done or all(block.not_run for block in blocks(page) if block.language in RUN)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_a_known_kind(page):
    """A command in a block of another kind would not be run."""
    known = RUN | SHOWN
    assert [b.line for b in blocks(page) if b.language not in known and not b.language.startswith("{")] == []
    for block in blocks(page):
        assert not block.not_run or block.not_run in REASONS, f"{page}:{block.line}"
        assert not any(line.startswith("$ ") for line in block.lines) or block.language == "console"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_of_the_repository(page):
    """Where there is no site, the pages are read in the repository, which has no generated ones."""
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    for link in filter(None, links):
        path = (ROOT / page).parent / link
        assert path.exists(), f"{page}: {link}"
        assert "generated" not in path.parts
