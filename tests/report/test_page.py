"""The page in a real browser: drawn, readable by everybody, and its switches work."""

import math
import re
from itertools import pairwise

import pytest

from fedswe.plotting import Panel, Series
from fedswe.report.blocks import Report, Section
from fedswe.report.charts import Curves, Switch, View
from fedswe.report.html import to_html
from fedswe.report.write import write_report
from tests.browser import PHONE
from tests.figures.runs import write_run
from tests.report.conftest import EMOJI, HEBREW, MARKUP


@pytest.fixture(scope="module")
def page_file(comparison, tmp_path_factory):
    return write_report([comparison], tmp_path_factory.mktemp("pages") / "report.html")[0]


def opened(chromium, file, **options):
    visit = chromium.open(file, **options)
    visit.page.wait_for_selector("html[data-drawn]", timeout=60_000, state="attached")
    return visit


def lines(visit, chart=1):
    """The curves that are drawn."""
    return visit.page.locator(f"#chart-{chart} .scatterlayer path.js-line").evaluate_all(
        "paths => paths.filter(path => path.style.strokeWidth === '2px').map(path => path.getAttribute('d'))"
    )


def y_title(visit, chart=1):
    return visit.page.locator(f"#chart-{chart} .g-ytitle").text_content()


def x_title(visit, chart=1):
    return visit.page.locator(f"#chart-{chart} .g-xtitle").text_content()


def test_everything_is_drawn_and_nothing_is_loaded(chromium, page_file):
    visit = opened(chromium, page_file)
    assert (visit.errors, visit.outside) == ([], [])
    number = int(visit.page.locator("html").get_attribute("data-drawn"))
    assert number == visit.page.locator("figure .plot > .plot-container").count() == 6
    assert len(lines(visit)) == 3
    assert visit.page.locator(".heatmaplayer image").count() == 2
    assert visit.page.locator(".barlayer path").count() > 1
    assert visit.page.locator("#chart-6 .scatterlayer path.point").count() == 10
    visit.screenshot("report-desktop")


def test_names_are_text(chromium, page_file):
    visit = opened(chromium, page_file)
    visit.page.on("dialog", lambda dialog: visit.errors.append(dialog.message))
    for name in (MARKUP, EMOJI, HEBREW):
        assert visit.page.get_by_role("rowheader", name=name, exact=True).count() == 3
        assert visit.page.locator("#chart-1 .legend").get_by_text(name, exact=True).count() == 1
    assert visit.page.locator("main b, main i, main script").count() == 0
    assert "<i>a comparison 😀" in visit.page.locator("h1").text_content()
    points = visit.page.locator("#chart-1 .scatterlayer .points path")
    labels = set()
    for i in range(points.count()):
        points.nth(i).hover(force=True)
        labels |= set(visit.page.locator("#chart-1 .hovertext").all_text_contents())
        if any(MARKUP in label for label in labels):
            break
    assert any(MARKUP in label for label in labels), labels
    assert visit.errors == []


def test_switches_change_what_is_drawn(chromium, page_file):
    visit = opened(chromium, page_file)
    chart = visit.page.locator("#chart-1")
    seen = [lines(visit)]
    assert y_title(visit) == "test accuracy, %"
    chart.get_by_label("client mean").check()
    seen.append(lines(visit))
    chart.get_by_label("test loss").check()
    assert y_title(visit) == "test loss"
    seen.append(lines(visit))
    chart.get_by_label("whole range").check()
    seen.append(lines(visit))
    chart.get_by_label("kB sent by all clients").check()
    assert x_title(visit) == "kB sent by all clients"
    assert all(a != b for a, b in pairwise(seen))
    chart.get_by_label(EMOJI).uncheck()
    assert len(lines(visit)) == 2
    chart.get_by_role("button", name="No curves").click()
    assert lines(visit) == []
    chart.get_by_role("button", name="All curves").click()
    assert len(lines(visit)) == 3
    points = visit.page.locator("#chart-6")
    before = points.locator("path.point").first.get_attribute("transform")
    points.get_by_label(HEBREW).check()
    assert points.locator("path.point").first.get_attribute("transform") != before
    chart.get_by_label("server model").check()
    chart.get_by_label("server model").focus()  # and by keyboard
    visit.page.keyboard.press("ArrowRight")
    assert chart.get_by_label("client mean").is_checked()
    chart.get_by_label(EMOJI).focus()
    visit.page.keyboard.press("Space")
    assert len(lines(visit)) == 2
    assert visit.errors == []


def test_a_heat_map_says_who_and_when_and_is_zoomed(chromium, page_file):
    visit = opened(chromium, page_file)
    place, label = visit.page.locator("#chart-3 .nsewdrag"), visit.page.locator("#chart-3 .hovertext")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()

    def at(x, y):
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    visit.page.mouse.move(*at(0.5, 0.04))
    label.wait_for()
    assert re.match(r"round \d+, client \d, available in \d+ % of the rounds", label.text_content())
    number = "() => document.querySelectorAll('#chart-3 .xtick').length"
    before = visit.page.evaluate(number)
    visit.page.mouse.move(*at(0.2, 0.2))
    visit.page.mouse.down()
    visit.page.mouse.move(*at(0.4, 0.6), steps=4)
    visit.page.mouse.up()
    visit.page.wait_for_function(f"before => ({number})() < before", arg=before)
    visit.page.locator("#chart-3").get_by_role("button", name="Reset zoom").click()
    visit.page.wait_for_function(f"before => ({number})() === before", arg=before)
    assert visit.errors == []


def test_accessibility(chromium, page_file):
    visit = opened(chromium, page_file, color_scheme="light")
    for listing in visit.page.locator("details").all():
        listing.evaluate("box => { box.open = true }")
    assert visit.violations() == []
    visit.page.emulate_media(color_scheme="dark")
    assert visit.violations() == []


def test_a_phone_needs_no_sideways_scrolling_and_print_is_light(chromium, page_file):
    visit = opened(chromium, page_file, size=PHONE, color_scheme="dark")
    width = visit.page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE[0]
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(20, 23, 27)"
    visit.screenshot("report-phone")
    visit.page.emulate_media(media="print")  # dark on white, whatever the screen has
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not visit.page.locator("nav").is_visible()
    title = visit.page.locator("#chart-1 text.ytitle")
    assert title.evaluate("text => getComputedStyle(text).fill") == "rgb(27, 31, 36)"


def test_a_hundred_runs(chromium, tmp_path):
    runs = [
        write_run(tmp_path / f"run{i}", 3, 0.3 + i / 200, every=1, algorithm={"name": "fedswe", "k": float(i)})
        for i in range(100)
    ]
    (file,) = write_report(runs, tmp_path / "all.html")
    assert file.stat().st_size < 6_000_000
    visit = opened(chromium, file)
    assert visit.errors == []
    assert len(lines(visit)) == 8
    assert visit.page.locator("#chart-1 .legend input").count() == 100
    visit.page.locator("#chart-1").get_by_role("button", name="All curves").click()
    assert len(lines(visit)) == 100


def test_a_band_ends_where_nothing_was_measured(chromium, tmp_path):
    series = Series("one", [0, 1, 2, 3, 4], [[1, 2, math.nan, 4, 5], [3, 4, math.nan, 6, 7]])
    views = {("all",): View(Panel("all", [series], "score", "k"), {"x": [series.x]})}
    chart = Curves("Gap", [Switch("panel", {"all": "all"})], {"x": "k"}, views)
    (tmp_path / "page.html").write_text(to_html(Report("Gap", [], [Section("Gap", [chart])])), encoding="utf-8")
    visit = opened(chromium, tmp_path / "page.html")
    band = visit.page.evaluate("() => document.querySelector('#chart-1 .plot').data[0].x")
    assert band == [0, 1, 1, 0, None, 3, 4, 4, 3, None]
    assert visit.errors == []
