"""The documentation site: `make docs`. Its sources are the pages of the repository, so that links work on both."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config

sys.path.insert(0, str(Path(__file__).parent))

from fedswe import __version__
from site_pages import algorithms, commands, mathml, parts, python_names

GENERATED = Path(__file__).parent / "generated"

project = "fedswe"
version = release = __version__
copyright = "the authors of fedswe, MIT licence"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    *("README.md", "CHANGELOG.md", "docs/**.md", "benchmarks/**.md"),
    *("experiments/*.md", "experiments/gym/*.md", "experiments/results/*/*.md"),
]
exclude_patterns = [".*", "build", "runs", "node_modules", "src", "tests", "examples"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages of tables that `fedswe reproduce` writes leave a level of headings out
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures: of Python, of torch, and names without a page

html_theme = "furo"
html_title = "fedswe"
html_extra_path = ["start"]  # index.html, which leads to the root page
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_math_renderer = "mathml"  # drawn by the browser itself: a page loads nothing from the network


def setup(app: Sphinx) -> None:
    # Millions of nodes stay until the end: to look through them for garbage again and again takes seconds.
    gc.set_threshold(50_000, 20)
    app.connect("config-inited", generate)
    app.connect("doctree-read", open_pages, priority=400)  # before downloads are collected
    app.add_html_math_renderer("mathml", (mathml.visit_inline, None), (mathml.visit_block, None))


def generate(app: Sphinx, config: Config) -> None:
    """Write the pages that are made of the package: they are not kept in the repository."""
    pages = {**algorithms.pages(), **commands.pages(), **parts.pages(), **python_names.pages()}
    for path in GENERATED.rglob("*.md"):
        if path.relative_to(GENERATED).as_posix() not in pages:
            path.unlink()
    for name, text in pages.items():
        path = GENERATED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # else nothing need be built again
            path.write_text(text, encoding="utf-8")


def open_pages(app: Sphinx, tree: nodes.document) -> None:
    """A link to a page in docs/static opens it; Sphinx would offer a copy for download."""
    for link in list(tree.findall(addnodes.download_reference)):
        folder, _, name = link["reftarget"].rpartition("/")
        if folder.endswith("static") and name.endswith(".html"):
            up = "../" * app.env.docname.count("/")
            link.replace_self(nodes.reference("", "", *link.children, refuri=f"{up}_static/{name}"))
