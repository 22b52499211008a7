"""The page in a real browser: drawn, readable by everybody, and its menus work."""

import pytest

from fedswe.report import write_report
from tests.browser import PHONE
from tests.figures.runs import write_run
from tests.report.conftest import EMOJI, HEBREW, MARKUP


@pytest.fixture(scope="module")
def page_file(comparison, tmp_path_factory):
    return write_report([comparison], tmp_path_factory.mktemp("pages") / "report.html")


def opened(chromium, file, **options):
    """With all its sections unfolded."""
    visit = chromium.open(file, **options)
    visit.page.wait_for_selector("html[data-drawn]", timeout=60_000, state="attached")
    visit.page.evaluate("unfold(document.querySelectorAll('details'))")
    return visit


def lines(visit):
    """The curves of the first chart."""
    found = visit.page.locator("figure").first.locator(".scatterlayer path.js-line")
    return found.evaluate_all("paths => paths.map(path => path.getAttribute('d'))")


def test_everything_is_drawn_and_nothing_is_loaded(chromium, page_file):
    visit = opened(chromium, page_file)
    assert (visit.errors, visit.outside) == ([], [])
    assert visit.page.locator("html").get_attribute("data-drawn") == "5"
    assert visit.page.locator("figure .plot-container").count() == 5
    assert len(lines(visit)) == 3
    assert visit.page.locator(".heatmaplayer image").count() == 2
    assert visit.page.locator("figure").nth(2).locator(".scatterlayer path.point").count() == 20
    visit.screenshot("report-desktop")


def test_names_are_text(chromium, page_file):
    visit = opened(chromium, page_file)
    visit.page.on("dialog", lambda dialog: visit.errors.append(dialog.message))
    first = visit.page.locator("figure").first
    for name in (MARKUP, EMOJI, HEBREW):
        assert visit.page.get_by_role("rowheader", name=name, exact=True).count() == 3
        assert name in first.locator(".legendtext").all_text_contents()
    assert visit.page.locator("main b, main i, svg tspan[style*=bold], svg a").count() == 0
    assert visit.page.locator("script:not(figure > script, body > script)").count() == 0
    assert MARKUP in visit.page.locator("h1").text_content()
    points, labels = first.locator(".scatterlayer .points path"), set()
    for i in range(points.count()):
        points.nth(i).hover(force=True)
        labels |= set(first.locator(".hovertext").all_text_contents())
        if any(MARKUP in label for label in labels):
            break
    assert any(MARKUP in label for label in labels), labels
    assert visit.errors == []


def test_menus_and_names_change_what_is_drawn(chromium, page_file):
    visit = opened(chromium, page_file)
    first = visit.page.locator("figure").first

    def choose(menu, option):
        first.locator("select").nth(menu).select_option(option)

    seen = [lines(visit)]
    for menu, option, title, text in (
        (0, "client mean: test loss", ".g-ytitle", "test loss"),
        (1, "kB sent by all clients", ".g-xtitle", "kB sent by all clients"),
        (2, "all rounds", ".g-xtitle", "kB sent by all clients"),
        (2, "log axis", ".g-xtitle", "kB sent by all clients"),
    ):
        choose(menu, option)
        assert first.locator(title).text_content() == text
        assert lines(visit) not in seen
        seen.append(lines(visit))
    first.locator(".legendtoggle").first.click()
    visit.page.wait_for_timeout(500)  # plotly waits whether it is a double click
    assert len(lines(visit)) == 2
    assert visit.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(scheme, chromium, page_file):
    assert opened(chromium, page_file, color_scheme=scheme).violations() == []


def test_the_first_screen_has_the_finding_and_the_dot_chart(chromium, page_file):
    visit = chromium.open(page_file)
    image, curves = (visit.page.locator(name).first.bounding_box() for name in (".first img", "figure"))
    assert image["y"] + image["height"] < 800
    assert curves["y"] < 800
    assert visit.page.locator(".first li").count() <= 3
    assert visit.page.locator(".first img").evaluate("image => image.naturalWidth") > 0


def test_a_phone_needs_no_sideways_scrolling_and_print_has_no_contents(chromium, page_file):
    visit = opened(chromium, page_file, size=PHONE)
    assert visit.page.locator("figure .nsewdrag").first.bounding_box()["width"] > 200
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    visit.screenshot("report-phone")
    visit.page.emulate_media(media="print")
    assert not visit.page.locator("nav").is_visible()


def test_a_hundred_runs(chromium, tmp_path):
    runs = [
        write_run(tmp_path / f"run{i}", 3, 0.3 + i / 200, every=1, algorithm={"name": "fedswe", "k": float(i)})
        for i in range(100)
    ]
    file = write_report(runs, tmp_path / "all.html")
    assert file.stat().st_size < 8_000_000
    visit = opened(chromium, file)
    assert visit.errors == []
    assert len(lines(visit)) == 12
    assert visit.page.locator("figure").first.locator(".legendtext").count() == 100
    visit.screenshot("report-hundred")
