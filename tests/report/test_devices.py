"""The page about devices in a real browser: readable by everybody, and nothing of a log is markup."""

from itertools import product

from tests.browser import DESKTOP, PHONE
from tests.cli.command import fedswe
from tests.report.conftest import EMOJI, HEBREW, MARKUP


def test_the_page_is_readable_and_names_are_text(chromium, tmp_path, monkeypatch, capsys):
    rows = []
    for i, name in enumerate((MARKUP, EMOJI, HEBREW, "bern", "basel", "zürich")):
        rows += [f'"{name}",{hour * 3600},{(hour + 1 + i) * 3600}' for hour in range(i, 90, 12 - i)]
    (tmp_path / "<i>log & co.csv").write_text("id,start,end\n" + "\n".join(rows) + "\n")
    page = tmp_path / "page.html"
    assert fedswe(monkeypatch, capsys, "availability", tmp_path / "<i>log & co.csv", "--out", page)[0] == 0
    for size, scheme in product((DESKTOP, PHONE), ("light", "dark")):
        visit = chromium.open(page, size, color_scheme=scheme)
        assert "FedAvg counts device zürich" in visit.page.title() == visit.page.locator("h1").text_content()
        assert all(name[:40] in visit.page.locator(".strip").text_content() for name in (MARKUP, EMOJI, HEBREW))
        assert "<i>log & co.csv" in visit.page.locator("main").text_content()
        assert visit.page.locator("main b, main i, script").count() == 0
        assert [visit.page.locator(part).count() for part in (".strip svg", ".bars")] == [6, 6]
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        visit.screenshot(f"devices-{size[0]}-{scheme}")
        assert (visit.errors, visit.outside, visit.violations()) == ([], [], [])
