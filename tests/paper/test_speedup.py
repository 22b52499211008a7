"""The recipe on linear speed-up: what its figure and its notes say is what the exact function says."""

import io
from pathlib import Path

import pandas as pd
import pytest

from fedswe.theory.moments import rounds_needed
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes.speedup import SPEEDUP, efficiency, note, table
from fedswe_paper.selection import Selection


def test_the_page_has_exact_rounds_and_says_up_to_where_they_are_linear(tmp_path):
    page = SPEEDUP.report(Selection("ci", "released"), Measurements([]))
    table = pd.read_csv(io.StringIO(page.charts["speedup"].data))
    (rounds,) = table.query("what == 'local steps' and p == 0.5 and target == 0.03 and size == 8")["rounds"]
    assert rounds == rounds_needed(0.03, clients=16, steps=8, p=0.5, k=16, sigma=3.0, spread=1.0)
    paths = page.charts["speedup"].save(tmp_path, "speedup")
    assert all(path.stat().st_size > 500 for path in paths)
    assert page.notes[1].startswith("clients, p = 1, target 0.003: at least 90 % of linear up to 64,")


def test_a_stricter_target_and_more_availability_keep_the_speed_up_linear_for_longer():
    by_clients = {
        key: line["efficiency"].tolist() for key, line in table().query("what == 'clients'").groupby(["p", "target"])
    }
    assert by_clients[1.0, 0.003][-1] > by_clients[0.5, 0.003][-1] > by_clients[0.1, 0.003][-1]
    assert by_clients[0.5, 0.003][-1] > 4 * by_clients[0.5, 0.03][-1]
    assert all(shares[0] == 1 and shares[1] == pytest.approx(1, abs=0.05) for shares in by_clients.values())


def test_a_note_by_hand():
    counts = {"size": [2, 4, 8, 16], "rounds": [100, 52, 45, 50]}
    line = pd.DataFrame({"what": "clients", "p": 0.5, "target": 0.1, **counts})
    line["efficiency"] = efficiency(line)
    assert line["efficiency"].tolist() == pytest.approx([1, 100 / 104, 200 / 360, 200 / 800])
    parts = ("at least 90 % of linear up to 4", "at least 50 % of linear up to 8", "fewest rounds at 8")
    assert note(line) == f"clients, p = 0.5, target 0.1: {', '.join(parts)}"


ROOT = Path(__file__).parents[2]
TEXT = " ".join((ROOT / "docs" / "theory.md").read_text(encoding="utf-8").split())


def test_the_numbers_of_the_documentation_are_those_of_the_exact_function():
    found = dict(list(table().groupby(["what", "p", "target"])))
    assert all("up to 64," in note(found["clients", p, 0.003]).split("50 %")[0] for p in (1.0, 0.5, 0.1))
    shares = [f"{100 * found['clients', p, 0.003].efficiency.iloc[-1]:.0f}" for p in (1.0, 0.5, 0.1)]
    assert f"512 have {shares[0]}, {shares[1]} and {shares[2]} %" in TEXT
    for p, most in ((1.0, 16), (0.5, 8), (0.1, 4)):
        assert f"90 % of linear up to {most}," in note(found["local steps", p, 0.003])
    assert "90 % holds up to 16, 8 and 4 steps" in TEXT


def test_the_rounds_on_digits_in_the_documentation_are_the_stored_ones():
    stored = pd.read_csv(ROOT / "experiments" / "results" / "speedup-digits.csv").set_index(["clients", "steps"])
    best = stored.filter(like="rate").min(axis=1)
    assert f"{best[2, 2] / best[16, 2]:.1f} times fewer rounds than 2, where linear is 8" in TEXT
    assert f"{best[8, 1] / best[8, 16]:.1f} times fewer than 1, where linear is 16" in TEXT
