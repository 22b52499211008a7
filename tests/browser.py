"""A real headless Chromium for tests of pages: what a page draws, says on its console and asks the network for.

In the conftest.py of a folder of tests: `from tests.browser import browser, chromium`. The tests are skipped where
Chromium is missing (Debian: apt-get install chromium), and checks of accessibility
where axe-core is (`make browser-tools`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

DESKTOP, PHONE = (1280, 800), (390, 844)
_AXE = Path(__file__).parents[1] / ".cache" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
_INSIDE = ("file", "data", "blob", "about", "chrome")


@dataclass
class Visit:
    """An open page, and what went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)  # errors and warnings on the console, exceptions
    outside: list[str] = field(default_factory=list)  # addresses of requests that left this machine

    def violations(self) -> list[str]:
        """What axe-core says against the page as it is now: its rules on contrast, names, roles, order."""
        if not _AXE.is_file():
            pytest.skip("axe-core is not installed (make browser-tools)")
        self.page.evaluate(_AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("() => axe.run()")
        return [
            f"{rule['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]

    def screenshot(self, name: str) -> None:
        """Keep a picture of the whole page in the folder FEDSWE_SCREENSHOTS, if that is set."""
        if folder := os.environ.get("FEDSWE_SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


class Chromium:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def open(self, address: str | Path, size: tuple[int, int] = DESKTOP, **context: Any) -> Visit:
        """Open an address, or a file, in a page of its own with its own storage; every page is closed with the test."""
        width, height = size
        opened = self._browser.new_context(viewport={"width": width, "height": height}, **context)
        visit = Visit(opened.new_page())

        def console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                visit.errors.append(f"{message.text} ({message.location.get('url', '')})")

        def request(asked: Any) -> None:
            place = urlsplit(asked.url)
            if place.scheme not in _INSIDE and place.hostname not in ("127.0.0.1", "localhost", "::1"):
                visit.outside.append(asked.url)

        visit.page.on("console", console)
        visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
        opened.on("request", request)
        visit.page.goto(address.resolve().as_uri() if isinstance(address, Path) else address)
        return visit

    def close_pages(self) -> None:
        for context in self._browser.contexts:
            context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    # Not for a whole session: Playwright keeps an event loop in this thread, which other tests may want for theirs.
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    api = pytest.importorskip("playwright.sync_api")
    arguments = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
    if os.getuid() == 0:
        arguments.append("--no-sandbox")  # Chromium's sandbox does not work for root
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=arguments)
        yield Chromium(launched)
        launched.close()


@pytest.fixture
def chromium(browser: Chromium) -> Iterator[Chromium]:
    yield browser
    browser.close_pages()
