"""The page on two clients: its numbers are those of the package, and everybody can read it."""

import re

import numpy as np
import pytest

from fedswe.algorithms import FedAvg, FedSWE, Keel
from fedswe.core.local import Local
from fedswe.tasks import Quadratic
from fedswe.theory import limits
from tests import problems
from tests.browser import DESKTOP, PHONE
from tests.docs.blocks import ROOT

PAGE, STILL = ROOT / "docs" / "static" / "two-clients.html", ROOT / "docs" / "images" / "two-clients.svg"
DEFAULTS = {"a": 0.9, "b": 0.1, "k": 2, "apart": 100, "turns": False}


def simulated(chromium, rounds, what, **changes):
    call = f"([settings, rounds]) => {{ const run = simulate(settings, rounds, 5); return {what}; }}"
    return chromium.open(PAGE).page.evaluate(call, [{**DEFAULTS, **changes}, rounds])


@pytest.mark.parametrize("changes", [{}, {"turns": True, "b": 0.5, "k": 0}, {"a": 0.05, "b": 0.05, "apart": 60}])
def test_it_computes_what_the_engine_does(chromium, changes):
    run, k = simulated(chromium, 500, "run", **changes), changes.get("k", 2)
    task = Quadratic(centers=[[0.0], [float(run["apart"])]]).build(problems.setting())
    for name, algorithm in (("fedavg", FedAvg()), ("fedswe", FedSWE(k=float(k))), ("keel", Keel())):
        local = Local(steps=1, lr=0.01, schedule="constant")
        engine, models = problems.engine("batched", algorithm, task, np.array(run["there"]), local), []
        for _ in run["there"]:
            engine.step()
            models.append((engine.server_model().item(), engine.client_mean().item()))
        drawn = np.column_stack([run[name]["server"], run[name]["clients"]])
        np.testing.assert_allclose(drawn, models, rtol=0, atol=1e-9)


@pytest.mark.parametrize("turns", [False, True])
def test_rules_end_at_the_limits_of_the_theory(chromium, turns):
    prob = np.kron(np.diag([0.9, 0.3]), np.ones((25, 1))) if turns else np.array([[0.9, 0.3]])
    ends = simulated(chromium, 200_000, "[run.fedavg.end, run.fedswe.end]", b=0.3, turns=turns)
    fedavg, fedswe = limits.fedavg_active_limit(prob, 0.01), limits.fedswe_limit(prob, 0.01, 2)
    expected = 100 * fedavg.server.mean(axis=0)[1], 100 * fedswe.client_mean.mean(axis=0)[1]
    assert ends == pytest.approx(expected, abs=0.3)


def test_the_still_is_the_picture_of_the_simulation(chromium, tmp_path):
    page = chromium.open(PAGE).page
    drawn, again = page.evaluate("picture(simulate(settings(), ROUNDS, SEED), 720)"), tmp_path / STILL.name
    again.write_text(drawn)
    assert STILL.read_text() == drawn, f"if it is meant to change: cp {again} {STILL}"
    ends = page.evaluate("SHOWN.map(([name]) => run[name].end)")
    assert re.findall(r'ends at <tspan class="bold">([^<]+)', drawn) == [f"{end:.1f}" for end in ends]


def test_its_claim_is_that_of_the_leaderboard():
    page = " ".join(PAGE.read_text().split())
    sections = (ROOT / "experiments" / "gym" / "LEADERBOARD-small.md").read_text().split("\n## ")[1:]
    recorded = [section for section in sections if re.search("spot|flash|fedscale", section.splitlines()[0])]
    for rule, failed in (("fedswe:k=100", 1), ("fedavg", 0), ("keel", 0)):
        found = [re.search(rf"\| `{rule}` \| [^|]+ \| ([\d.]+) ±", section) for section in recorded]
        regrets = [float(row[1]) for row in found if row]
        assert f"{min(regrets)} to {max(regrets)}" in page
        assert (len(recorded), len(regrets)) == (5, 5 - failed)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_everybody_can_read_it(chromium, size, scheme):
    visit = chromium.open(PAGE, size=size, color_scheme=scheme)
    visit.page.locator("#rounds", has_text=re.compile(r"to \d\d+$")).wait_for()  # it moves
    visit.page.get_by_role("button", name="Pause").press("Enter")
    visit.screenshot(f"two-clients-{size[0]}-{scheme}")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert (visit.errors, visit.outside) == ([], [])
    assert visit.violations() == []


def test_a_change_is_shown_and_nothing_moves_for_those_who_want_no_motion(chromium):
    visit = chromium.open(PAGE, reduced_motion="reduce")
    text, before = visit.page.get_by_role("status"), visit.page.get_by_role("img").get_attribute("aria-label")
    assert text.text_content() == before
    assert visit.page.evaluate("[playing, round === ROUNDS]") == [False, True]
    for _ in range(8):
        visit.page.get_by_role("slider", name="B is there").press("ArrowRight")
    assert text.text_content() == visit.page.get_by_role("img").get_attribute("aria-label") != before
    visit.page.get_by_role("button", name="Play").click()
    visit.page.locator("#rounds", has_text="rounds 1 to").wait_for()
    assert visit.errors == []
