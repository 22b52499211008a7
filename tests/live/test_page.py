"""The page in a real browser: it advances with a real run, and recovers from whatever happens to run and server."""

import os
import shutil
import signal

import pytest

from fedswe.experiment import runner
from fedswe.experiment.configuration import load
from tests.browser import DESKTOP, PHONE
from tests.live.server import PATIENCE, QUICK, until

# An own column that takes a while: the run is as slow as a test needs it, and real in all else.
SLOW = """
import time
from dataclasses import dataclass
from typing import ClassVar
from fedswe.engine.columns import Column

@dataclass(frozen=True)
class Slow(Column):
    title: ClassVar[str] = "takes a while"
    def values(self, engine):
        time.sleep(0.1)
        return {"slow": 1.0}
"""


def finished(folder, *settings):
    return runner.run(load(None, [*QUICK, "rounds=8", "evaluate.every=2", *settings]), folder)


def slow(folder, rounds):
    own = folder / "slow.py"
    own.write_text(SLOW)
    return (f"rounds={rounds}", "evaluate.every=1", "record.checkpoint=5", f"record.columns=['{own}:Slow']")


def wait(visit, expression, argument=None):
    """Until an expression of JavaScript is true on the page."""
    visit.page.wait_for_function(expression, arg=argument, timeout=1000 * PATIENCE)


def points(visit):
    return visit.page.evaluate("() => Number(document.getElementById('scores').dataset.points || 0)")


POINTS = "n => Number(document.getElementById('scores').dataset.points || 0) >= n"
ROUNDS = "n => Number(document.getElementById('strip').dataset.rounds || 0) >= n"


def test_the_page_advances_with_a_run_and_recovers_when_it_is_killed_and_resumed(watch, runs, chromium, tmp_path):
    server = watch(tmp_path / "runs")
    visit = chromium.open(server.address)
    wait(visit, "() => document.getElementById('connection').textContent === 'connected'")
    assert visit.page.is_visible("#empty")
    run = runs.start(tmp_path / "runs" / "first", *slow(tmp_path, 40))
    wait(visit, POINTS, 8)
    assert visit.page.inner_text("#runs .state") == "running"
    seen = points(visit)
    wait(visit, POINTS, seen + 3)
    wait(visit, ROUNDS, 8)
    run.kill()
    run.wait()
    wait(visit, "() => document.querySelector('#runs .state').textContent === 'stopped'")
    killed = points(visit)
    resumed = runs.resume(tmp_path / "runs" / "first")
    wait(visit, POINTS, 41)
    assert resumed.wait(PATIENCE) == 0
    wait(visit, "() => document.querySelector('#runs .state').textContent === 'finished'")
    # Every round is there once: what was written after the checkpoint and written again is not drawn twice.
    rounds = visit.page.evaluate("() => document.getElementById('scores').data[0].x")
    assert killed < 41
    assert rounds == list(range(41))
    assert visit.page.get_attribute("#strip", "data-rounds") == "40"
    assert (visit.errors, visit.outside) == ([], [])


def test_a_page_connects_again_to_a_restarted_server(watch, chromium, tmp_path):
    finished(tmp_path / "runs" / "one")
    server = watch(tmp_path / "runs")
    visit = chromium.open(server.address)
    wait(visit, POINTS, 5)
    assert server.stop() == 0
    wait(visit, "() => document.getElementById('connection').classList.contains('lost')")
    assert points(visit) == 5  # what was drawn stays
    visit.errors.clear()  # the browser says that the server is not there
    finished(tmp_path / "runs" / "two")
    watch(tmp_path / "runs", port=server.port)
    wait(visit, "() => document.querySelectorAll('#runs .row').length === 2")
    wait(visit, "() => document.getElementById('connection').textContent === 'connected'")
    assert [error for error in visit.errors if "ERR_CONNECTION_REFUSED" not in error] == []


def test_runs_appear_and_disappear(watch, chromium, tmp_path):
    server = watch(tmp_path / "runs")
    visit = chromium.open(server.address)
    finished(tmp_path / "runs" / "one")
    wait(visit, "() => document.querySelectorAll('#runs .row').length === 1")
    (tmp_path / "runs" / "one").rename(tmp_path / "elsewhere")
    wait(visit, "() => document.getElementById('runs').hidden")
    wait(visit, "() => !document.getElementById('empty').hidden")
    (tmp_path / "elsewhere").rename(tmp_path / "runs" / "back")
    wait(visit, "() => document.querySelector('#runs .name')?.textContent === 'runs/back'")
    assert (visit.errors, visit.outside) == ([], [])


def test_names_are_text_whatever_they_hold(watch, chromium, tmp_path):
    names = ["<img src=x onerror=alert(1)>", "😀 emoji", "שלום right to left", "&lt;b&gt; <b>bold"]
    for name in names:
        finished(tmp_path / "runs" / name, "record.columns=['consensus']")
    (tmp_path / "runs" / names[0] / "history.csv").write_text("round,<script>alert(2)</script>\n1,2\n")
    visit = chromium.open(watch(tmp_path / "runs").address)
    alerts = []
    visit.page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    wait(visit, "() => document.querySelectorAll('#latest tbody tr').length === 4")
    shown = visit.page.eval_on_selector_all("#runs .name", "all => all.map(one => one.textContent)")
    assert sorted(shown) == sorted(f"runs/{name}" for name in names)
    assert sorted(visit.page.eval_on_selector_all("#latest tbody .name", "all => all.map(one => one.textContent)")) == (
        sorted(shown)
    )
    visit.page.select_option("#score", "<script>alert(2)</script>")
    wait(visit, POINTS, 1)
    box = visit.page.locator("#scores .nsewdrag").bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # names are in hover texts too
    visit.page.wait_for_selector("#scores .hovertext")
    assert visit.page.query_selector("#columns img, #columns script, #columns b") is None
    assert (alerts, visit.errors, visit.outside) == ([], [], [])


def test_served_model_score_and_axis_are_switched(watch, chromium, tmp_path):
    result = finished(tmp_path / "runs" / "one", "evaluate.serve=client_mean")
    visit = chromium.open(watch(tmp_path / "runs").address)
    wait(visit, POINTS, 5)

    def drawn(axis):
        return visit.page.evaluate(f"() => document.getElementById('scores').data[0].{axis}")

    def close(values, column):
        return values == pytest.approx(list(result.history[column]), rel=1e-4)

    score = visit.page.input_value("#score")
    assert close(drawn("y"), f"client_mean_{score}")
    visit.page.select_option("#model", "server")
    until(lambda: close(drawn("y"), f"server_{score}"), "the server model is not drawn")
    visit.page.select_option("#axis", "seconds")
    until(lambda: close(drawn("x"), "seconds"), "the axis did not change")
    assert visit.errors == []


def test_the_page_is_used_with_the_keyboard_alone(watch, chromium, tmp_path):
    finished(tmp_path / "runs" / "one")
    finished(tmp_path / "runs" / "two")
    visit = chromium.open(watch(tmp_path / "runs").address)
    wait(visit, "() => document.querySelectorAll('#latest tbody tr').length === 2")
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("() => document.activeElement.type") == "checkbox"
    visit.page.keyboard.press("Space")
    wait(visit, "() => document.querySelectorAll('#latest tbody tr').length === 1")
    assert visit.page.evaluate("() => document.activeElement.type") == "checkbox"  # the list was not built anew
    reached = set()
    for _ in range(12):
        visit.page.keyboard.press("Tab")
        reached.add(visit.page.evaluate("() => document.activeElement.id"))
    assert {"score", "model", "axis", "focus"} <= reached
    assert visit.errors == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_is_accessible_and_no_wider_than_the_screen(watch, chromium, tmp_path, size):
    finished(tmp_path / "runs" / "a rather long name of a run, which the list has to break into several lines")
    planned = tmp_path / "runs" / "grid" / ".locks"
    finished(tmp_path / "runs" / "grid" / "runs" / "first")
    planned.mkdir()
    (planned / "planned.txt").write_text("first\nsecond\n")
    visit = chromium.open(watch(tmp_path / "runs").address, size)
    wait(visit, "() => document.querySelectorAll('.cell').length === 2")
    wait(visit, ROUNDS, 8)
    assert visit.page.eval_on_selector_all(".cell", "all => all.map(one => one.ariaLabel)") == [
        "first, done", "second, waiting",
    ]  # fmt: skip
    assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    visit.screenshot(f"live-{size[0]}")
    assert visit.violations() == []
    visit.page.emulate_media(color_scheme="dark")
    wait(visit, "() => document.querySelector('#scores .xtick text').style.fill === 'rgb(230, 233, 237)'")
    visit.screenshot(f"live-{size[0]}-dark")
    assert visit.violations() == []
    assert (visit.errors, visit.outside) == ([], [])


def test_a_page_that_has_slept_asks_again_and_a_hidden_one_does_not_hold_a_connection(watch, chromium, tmp_path):
    server = watch(tmp_path / "runs")
    visit, asked = chromium.open("about:blank"), []
    visit.page.on("request", lambda request: asked.append(request.url) if "/events" in request.url else None)
    visit.page.clock.install()
    visit.page.goto(server.address)
    visit.page.clock.run_for(100)
    until(lambda: visit.page.inner_text("#connection") == "connected", "no connection")
    before = len(asked)
    os.kill(server.process.pid, signal.SIGSTOP)  # it says nothing, as over a connection that did not survive a sleep
    visit.page.clock.fast_forward(60_000)
    until(lambda: len(asked) > before, "it did not ask again")
    os.kill(server.process.pid, signal.SIGCONT)
    finished(tmp_path / "runs" / "one")
    until(lambda: visit.page.clock.run_for(100) or visit.page.query_selector("#runs .row"), "the run is not shown")

    hide = "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    visit.page.evaluate(hide, True)
    before = len(asked)
    finished(tmp_path / "runs" / "two")
    server.item(lambda item: item["name"].endswith("two"))
    assert visit.page.locator("#runs .row").count() == 1
    visit.page.evaluate(hide, False)
    until(
        lambda: visit.page.clock.run_for(100) or visit.page.locator("#runs .row").count() == 2, "it did not come back"
    )
    assert len(asked) > before
    assert visit.errors == []


def test_a_thirteenth_curve_takes_the_place_of_the_first(watch, chromium, tmp_path):
    finished(tmp_path / "runs" / "01")
    for number in range(2, 14):
        shutil.copytree(tmp_path / "runs" / "01", tmp_path / "runs" / f"{number:02}")
    visit = chromium.open(watch(tmp_path / "runs").address)
    wait(visit, "() => document.querySelectorAll('#runs input').length === 13")
    boxes = visit.page.locator("#runs input")
    for number in range(13):
        boxes.nth(number).set_checked(False)
    for number in range(12):
        boxes.nth(number).check()
    wait(visit, "() => document.getElementById('scores').data.length === 12")
    assert visit.page.inner_text("#limits").startswith("12 curves are the most on one page")
    boxes.nth(12).check()
    wait(visit, "() => !document.querySelector('#runs input').checked")
    boxes.nth(12).uncheck()
    wait(visit, "() => document.getElementById('limits').hidden")
    assert (visit.errors, visit.outside) == ([], [])
