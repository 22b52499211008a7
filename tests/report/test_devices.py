"""The page about devices in a real browser: readable by everybody, and nothing of a log is markup."""

import pytest

from tests.browser import DESKTOP, PHONE
from tests.cli.command import fedswe
from tests.report.conftest import EMOJI, HEBREW, MARKUP


@pytest.fixture
def page_file(tmp_path, monkeypatch, capsys):
    rows = []
    for i, name in enumerate((MARKUP, EMOJI, HEBREW, "bern", "basel", "zürich")):
        rows += [f'"{name}",{hour * 3600},{(hour + 1 + i) * 3600}' for hour in range(i, 90, 12 - i)]
    log = tmp_path / "<i>log & co.csv"
    log.write_text("id,start,end\n" + "\n".join(rows) + "\n")
    code, _, err = fedswe(monkeypatch, capsys, "availability", log, "--out", tmp_path / "page.html")
    assert (code, err) == (0, "")
    return tmp_path / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_page_is_readable_and_names_are_text(chromium, page_file, size, scheme):
    visit = chromium.open(page_file, size, color_scheme=scheme)
    page = visit.page
    assert "FedAvg counts device zürich" in page.title()
    assert page.locator("h1").text_content() == page.title()
    for name in (MARKUP, EMOJI, HEBREW):
        assert name[:40] in page.locator(".strip").text_content()
    assert "<i>log & co.csv" in page.locator("main").text_content()
    assert page.locator("main b, main i, script").count() == 0
    assert page.locator(".strip svg").count() == 6
    assert page.locator(".bars").count() == 6  # hours, sessions, outages, three rules
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    visit.screenshot(f"devices-{size[0]}-{scheme}")
    assert (visit.errors, visit.outside, visit.violations()) == ([], [], [])
