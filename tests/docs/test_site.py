"""The site is built without a warning, and loads nothing from the network."""

import os
import re
import subprocess
import sys

import pytest

from fedswe import registry
from fedswe.registry import KINDS
from tests.docs.blocks import ROOT


def built(folder):
    words = ["-W", "--keep-going", "-q", "-c", "docs", "-d", str(folder / "doctrees"), ".", str(folder / "html")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.mark.slow
def test_the_site(tmp_path):
    site = built(tmp_path)
    it_has_a_page_for_every_algorithm(site)
    its_first_page_leads_to_the_root(site)
    pages_load_nothing_from_the_network(site)
    links_to_the_page_on_two_clients_open_it(site)
    assert (site / "search.html").is_file()


def it_has_a_page_for_every_algorithm(site):
    for name in KINDS["algorithm"].builtin:
        page = (site / "docs" / "generated" / "algorithms" / f"{name}.html").read_text()
        assert "merge" in page
        assert registry.resolve("algorithm", name).citation.split(".")[0] in page.replace("&amp;", "&")


def its_first_page_leads_to_the_root(site):
    (target,) = re.findall(r'url=([^"]+)', (site / "index.html").read_text())
    assert "tutorial.html" in (site / target).read_text()


def pages_load_nothing_from_the_network(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preload|icon)"[^>]*href="([^"]+)"', text)
        assert [address for address in loaded if re.match(r"(?:https?:)?//", address)] == [], page


def links_to_the_page_on_two_clients_open_it(site):
    for page in (site / "docs" / "index.html", site / "docs" / "how-it-works.html"):
        (link, target), *_ = re.findall(r'(<a[^>]*href="([^"]*two-clients.html)"[^>]*>)', page.read_text())
        assert "download" not in link
        opened = (page.parent / target).resolve()
        for address in re.findall(r'href="([^"]+)"', opened.read_text()):
            assert (opened.parent / address).is_file()
