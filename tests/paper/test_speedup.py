"""The recipe on linear speed-up: what its figure and its notes say is what the exact function says."""

import csv
import io

import pytest

from fedswe.theory.speedup import rounds_needed
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes.speedup import SPEEDUP, Line, lines
from fedswe_paper.selection import Selection


def test_the_page_has_exact_rounds_and_says_up_to_where_they_are_linear(tmp_path):
    page = SPEEDUP.report(Selection("ci", "released"), Measurements([]))
    table = list(csv.DictReader(io.StringIO(page.charts["speedup"].data)))
    (row,) = [r for r in table if (r["what"], r["p"], r["target"], r["size"]) == ("local steps", "0.5", "0.03", "8")]
    assert float(row["rounds"]) == rounds_needed(0.03, clients=16, steps=8, p=0.5, k=16, sigma=3.0, spread=1.0)
    paths = page.charts["speedup"].save(tmp_path, "speedup")
    assert all(path.stat().st_size > 500 for path in paths)
    assert page.notes[1].startswith("clients, p = 1, target 0.003: at least 90 % of linear up to 64,")


def test_a_stricter_target_and_more_availability_keep_the_speed_up_linear_for_longer():
    by_clients = {(line.p, line.target): line.efficiency for line in lines() if line.what == "clients"}
    assert by_clients[1.0, 0.003][-1] > by_clients[0.5, 0.003][-1] > by_clients[0.1, 0.003][-1]
    assert by_clients[0.5, 0.003][-1] > 4 * by_clients[0.5, 0.03][-1]
    assert all(shares[0] == 1 and shares[1] == pytest.approx(1, abs=0.05) for shares in by_clients.values())


def test_a_note_by_hand():
    line = Line("clients", 0.5, 0.1, (2, 4, 8, 16), (100.0, 52.0, 45.0, 50.0))
    assert line.efficiency == pytest.approx((1, 100 / 104, 200 / 360, 200 / 800))
    parts = ("at least 90 % of linear up to 4", "at least 50 % of linear up to 8", "fewest rounds at 8")
    assert line.note() == f"clients, p = 0.5, target 0.1: {', '.join(parts)}"
