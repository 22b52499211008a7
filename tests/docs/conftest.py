"""A real browser for the page that is part of the site."""

from tests.browser import browser, chromium

__all__ = ["browser", "chromium"]
