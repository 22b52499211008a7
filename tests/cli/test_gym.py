"""`fedswe gym` at the smallest scale, as a user runs it."""

import json
import subprocess

import pytest

from fedswe.gym.measurements import FILE, KEY
from fedswe.results.table import append, select
from tests.cli.command import fedswe, process

WORDS = ("gym", "--scale", "ci", "--availability", "sine", "--jobs", "1")
OWN = """
from dataclasses import dataclass
from fedswe.algorithms import FedAvg

@dataclass(frozen=True)
class Half(FedAvg):
    lr: float = 0.5
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """FedAvg alone, measured once for all tests that read."""
    out = tmp_path_factory.mktemp("gym")
    with pytest.MonkeyPatch.context() as monkeypatch:
        import sys

        from fedswe.cli import main

        monkeypatch.setattr(sys, "argv", ["fedswe", *WORDS, "--rules", "fedavg", "--out", str(out)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return out


def test_a_gym_writes_tables_and_a_page(measured):
    rows = select(measured / "ci" / FILE, setting="digits-sine").to_dict("records")
    assert {int(r["seed"]) for r in rows} == {1, 3, 4}
    assert len({(r["rate"], r["server_rate"], r["momentum"], r["warmup"]) for r in rows}) >= 6
    assert {r["rule"] for r in rows} == {"fedavg"}
    page = (measured / "LEADERBOARD-ci.md").read_text()
    assert "## digits-sine" in page
    assert "| `fedavg` | 0.00 | digits-sine |" in page
    assert "<svg" in (measured / "heatmap-ci.svg").read_text()
    assert not list((measured / "ci" / "work").rglob("*.csv"))


def test_finished_runs_are_not_repeated_and_an_own_rule_is_added(measured, monkeypatch, capsys, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    before = set(select(measured / "ci" / FILE).astype(object).itertuples(index=False))
    words = ("gym", "add", "./mine.py:Half", *WORDS[1:], "--rules", "fedavg", "--out", measured, "--json")
    code, out, err = fedswe(monkeypatch, capsys, *words)
    assert code == 0, err
    values = json.loads(out)
    assert {s["rule"] for s in values["standings"] if not s["missing"]} == {"fedavg", "./mine.py:Half"}
    assert before <= set(select(measured / "ci" / FILE).astype(object).itertuples(index=False))
    text = (measured / "LEADERBOARD-ci.md").read_text()
    assert "| `fedau` |  | not measured in digits-sine |" in text
    assert "`./mine.py:Half`" in text
    (setting,) = values["settings"]
    best = max(setting["rules"], key=lambda r: sum(r["test"]))
    assert setting["best"] == best["rule"]
    assert best["regret"] == 0


def test_a_rule_that_has_changed_is_measured_again(tmp_path):
    """Each command is a process of its own, as a user's are: it reads the file again."""
    found = []
    for lr in ("0.5", "0.25"):
        (tmp_path / "mine.py").write_text(OWN.replace("0.5", lr))
        words = ("gym", "add", "./mine.py:Half", *WORDS[1:], "--rules", "fedavg", "--out", "here", "--json")
        command = process(*words, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        out, _ = command.communicate()
        assert command.returncode == 0
        rules = json.loads(out)["settings"][0]["rules"]
        found.append(next(r["test"] for r in rules if r["rule"] == "./mine.py:Half"))
    assert found[0] != found[1]


def test_another_precision_is_not_mixed_in(measured, monkeypatch, capsys):
    words = (*WORDS, "--rules", "fedavg", "--precision", "bf16", "--out", measured)
    code, _, err = fedswe(monkeypatch, capsys, *words)
    assert code == 2
    assert "was measured with --device cpu --precision fp32: give these, or another --out" in err


def test_results_of_other_settings_are_refused(measured, monkeypatch, capsys, tmp_path):
    place = tmp_path / "ci"
    place.mkdir()
    rows = select(measured / "ci" / FILE, rule="fedavg").astype(object)
    append(place / FILE, rows.assign(settings=rows["settings"] + "x"), KEY)
    code, _, err = fedswe(monkeypatch, capsys, *WORDS, "--rules", "fedavg", "--out", tmp_path)
    assert code == 2
    assert "was measured with other settings: delete it, or choose another --out" in err


@pytest.mark.filterwarnings("always::fedswe.errors.FedsweWarning")
def test_missing_traces_are_left_out_with_a_warning(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path / "nowhere"))
    words = ("gym", "--scale", "small", "--availability", "fedscale", "--out", tmp_path)
    code, _, err = fedswe(monkeypatch, capsys, *words)
    assert code == 2
    assert err.startswith("warning: left out: fedscale; their traces are not in")
    assert "error: no setting is left" in err
    assert "set FEDSWE_TRACES to the folder that has them" in err
