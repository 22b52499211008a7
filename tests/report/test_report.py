"""What a report says, which directories it is about, and what cannot get into its page."""

import json
import math
import re
import shutil

import pandas as pd
import pytest

import fedswe
from fedswe.algorithms import FedAvg
from fedswe.clock import Seconds
from fedswe.comparison.measured_run import measured_runs
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Record
from fedswe.report import report_on
from fedswe.report.page import Report, Section, curves, heat_map, points, to_html
from fedswe.report.runs import finding
from tests.figures.runs import with_scores, write_run, write_runs
from tests.report.conftest import EMOJI, HEBREW, MARKUP, experiment

EVIL = "</script><!-- \"'&\u2028\u2029 <img src=x onerror=alert(1)>"


def section(report, title):
    return next(section for section in report.sections if section.title == title)


def finals(report):
    (table,) = section(report, "Final scores").tables.values()
    return table.set_index("runs")


def scores(report):
    (figure,) = section(report, "Scores over the rounds").figures.values()
    return figure


def options(figure):
    return [[button["label"] for button in menu["buttons"]] for menu in figure["layout"]["updatemenus"]]


def write(path, seed, server, client_mean, name="fedswe"):
    """A run of 60 rounds with these test accuracies at its evaluations."""
    run = write_run(path, seed, rounds=60, algorithm={"name": name})
    return with_scores(run, server_test_accuracy=server, client_mean_test_accuracy=client_mean)


# directories
def test_what_no_report_can_be_made_of(tmp_path):
    with pytest.raises(FedsweError, match="does not hold a run, a comparison, a federation, a gym or a reproduction"):
        report_on([tmp_path])
    with pytest.raises(FedsweError, match="there is no directory"):
        report_on([tmp_path / "none"])


@pytest.mark.parametrize("damage", ["", "round,server_test_accuracy\n1,x\n", "round,server_test_accuracy\n"])
def test_a_damaged_history(damage, tmp_path):
    run = write_run(tmp_path / "a")
    (run / "history.csv").write_text(damage)
    with pytest.raises(FedsweError, match=r"damaged|no rounds"):
        report_on([run])


def test_a_comparison_and_a_run_in_one_chart(comparison, tmp_path):
    fedswe.run(experiment(FedAvg(lr=0.5), seed=3), out=tmp_path / "own")
    figure = scores(report_on([comparison, tmp_path / "own"]))
    assert len([curve for curve in figure["data"] if curve["visible"]]) == 4


def test_simulated_time_and_consensus(tmp_path):
    timed = experiment(FedAvg(), clock=Seconds(slot_seconds=60.0), record=Record(columns=["consensus"]))
    fedswe.run(timed, out=tmp_path / "timed")
    report = report_on([tmp_path / "timed"])
    _, abscissas, axes = options(scores(report))
    assert abscissas[0] == "round"
    assert "simulated seconds" in abscissas
    assert any("sent by all clients" in name for name in abscissas)
    assert axes == ["late rounds", "all rounds", "log axis"]
    (others,) = section(report, "Other columns of the history").figures.values()
    assert {"consensus clients", "consensus augmented"} <= set(options(others)[0])


@pytest.mark.filterwarnings("ignore:.* is not finished")
def test_bytes_only_where_all_runs_have_them(tmp_path):
    report = report_on([write_run(tmp_path / "a"), write_run(tmp_path / "b", 4, finished=False)])
    assert options(scores(report))[1] == ["round", "seconds"]


# scores
def test_final_scores_are_those_of_the_comparison(comparison):
    """One place for each number: the table of the page has those of compare_summary.csv."""
    table = finals(report_on([comparison]))
    assert set(table.index) == {MARKUP, EMOJI, HEBREW}
    for row in pd.read_csv(comparison / "compare_summary.csv").itertuples():
        cell = table.loc[row.algorithm, {"server": "server model"}.get(row.model, "client mean")]
        assert cell == f"{100 * row.test_accuracy_mean:.1f}"  # two seeds: neither a deviation nor a place


def test_level_and_lower(tmp_path):
    level, lower = {3: 0.898, 4: 0.91, 6: 0.924}, {3: 0.7, 4: 0.71, 6: 0.72}
    best = {"fedavg": {3: 0.9, 4: 0.91, 6: 0.92}, "fedau": level, "mifa": lower}
    report = report_on(write_runs(tmp_path, best))
    assert report.title == "fedau leads on digits under sine; fedavg is level"
    assert report.summary[0] == (
        "Server model: fedau has the best test accuracy, 91.1 ± 1.3 %; level with it within the noise: fedavg; "
        "behind it: mifa (by 20.1 ± 0.8 points)."
    )
    assert report.summary[2] == "digits, 30 clients, sine availability, 40 rounds, seeds 3, 4, 6, local rate 0.1."
    assert finding(measured_runs([tmp_path / "fedau-3"]))[0] == "fedau on digits under sine: test accuracy 89.8 %"
    assert finals(report)["server model"].to_dict() == {
        "fedau": "91.1 ± 1.3 (1st)", "fedavg": "91.0 ± 1.0 (1st)", "mifa": "71.0 ± 1.0 (2nd)",
    }  # fmt: skip


def test_order_and_difference_are_over_the_same_seeds(tmp_path):
    """The mean over all seeds of fedavg is higher, but it is lower with each seed that both have."""
    accuracies = {"fedavg": {3: 0.70, 4: 0.701, 5: 0.70, 6: 0.9, 7: 0.9}, "fedau": {3: 0.72, 4: 0.722, 5: 0.721}}
    assert finals(report_on(write_runs(tmp_path, accuracies)))["server model"].to_dict() == {
        "fedau": "72.1 ± 0.1 (1st)", "fedavg": "70.0 ± 0.1 (2nd)"
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.* is not finished")
def test_a_run_that_is_not_finished_is_not_ranked(tmp_path):
    """At equal rounds it would be level."""
    runs = []
    for seed in (3, 4, 6):
        runs.append(write_run(tmp_path / f"a{seed}", seed, 0.9, algorithm={"name": "fedavg"}))
        late = write_run(tmp_path / f"b{seed}", seed, 0.4, rounds=20, finished=False, algorithm={"name": "fedau"})
        runs.append(late)
    report = report_on(runs)
    assert report.title == "3 of 6 runs have ended: fedavg on digits under sine: test accuracy 90.0 ± 0.0 %"
    assert finals(report)["server model"].to_dict() == {"fedavg": "90.0 ± 0.0", "fedau": "40.0 after 20 rounds"}
    same = report_on(runs[1::2])  # these stand at the same round
    assert finals(same)["server model"].to_dict() == {"fedau": "40.0 ± 0.0"}


def test_diverged_runs_are_named(tmp_path):
    runs = [
        write(tmp_path / "a", 3, [0.5, math.nan, *[math.nan] * 5], [0.5] * 7, "mifa"),
        write(tmp_path / "b", 3, [0.5] * 7, [0.5] * 7, "fedavg"),
        write(tmp_path / "c", 4, [math.nan] * 7, [0.5] * 7, "fedavg"),
    ]
    report = report_on(runs)
    assert finals(report)["server model"].to_dict() == {"mifa": "diverged", "fedavg": "1 of 2 diverged"}
    assert report.alarms == ["server model: a seed of mifa, fedavg diverged."]


def test_an_unsteady_model_fluctuates_and_a_slow_rise_does_not(tmp_path):
    shaken, rising = [0.1, 0.9, 0.5, 0.9, 0.5, 0.9, 0.5], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    table = finals(report_on([write(tmp_path / "a", 3, shaken, rising)]))
    assert table.loc["fedswe", "server model, fluctuation"] == "32.7"
    assert table.loc["fedswe", "client mean, fluctuation"] == "0.0"


def test_many_evaluations_are_thinned(tmp_path):
    runs = [
        write_run(tmp_path / str(i), 3, 0.9, every=1, rounds=4000, algorithm={"name": "fedswe", "k": float(i)})
        for i in range(12)
    ]
    figure = scores(report_on(runs))
    assert sum(len(curve["x"]) for curve in figure["data"]) <= 11_000
    assert {curve["x"].iloc[-1] for curve in figure["data"]} == {4000}


# origin
def test_where_it_comes_from(comparison):
    last = report_on([comparison]).sections[-1]
    facts = dict(last.tables["Measured with"].itertuples(index=False, name=None))
    assert {"command", "commit", "python", "packages fedswe", "packages torch", "machine processor"} <= set(facts)
    assert f"{EMOJI}, seed 3" in last.listings
    assert all('name = "digits"' in text for text in last.listings.values())


def test_a_damaged_run_json_is_left_out(comparison, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(comparison, copy)
    texts = ["{", "[]", '{"command": 3}', '{"command": []}', *["[" * 100_000] * 2]
    for file, text in zip(copy.glob("runs/*/run.json"), texts, strict=True):
        file.write_text(text)
    last = report_on([copy]).sections[-1]
    assert last.listings
    assert set(last.tables["Measured with"]["what"]) == {"command"}


def test_long_configurations_and_commands_are_shortened(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "config.toml").write_text((run / "config.toml").read_text() + "#" * 100_000)
    (run / "run.json").write_text(json.dumps({"command": ["fedswe", "x" * 100_000], "commit": "y" * 100_000}))
    last = report_on([run]).sections[-1]
    assert {len(text) for text in (*last.listings.values(), *last.tables["Measured with"]["value"])} == {20_000}


# the page
def test_text_of_the_user_is_escaped_everywhere():
    numbers = pd.DataFrame([dict.fromkeys(("panel", "label", "y_name"), EVIL) | {"x": 1.0, "mean": 1.0}])
    numbers = numbers.assign(low=1.0, high=2.0, seeds=3)
    figures = {
        EVIL: curves({EVIL: numbers, "x": numbers}),
        "heat": heat_map([[1.0]], [EVIL], [EVIL], EVIL, EVIL),
        "points": points([1.0], {EVIL: [1.0]}, [EVIL], EVIL, EVIL),
    }
    table = pd.DataFrame({EVIL: [EVIL], "b": [EVIL]})
    every = Section(EVIL, [EVIL], {EVIL: table}, figures, {EVIL: b"<svg"}, {EVIL: EVIL}, EVIL)
    page = to_html(Report(EVIL, [EVIL], [every]))
    own, *_ = page.partition("<script>")
    assert "<img src=x" not in own
    data = re.findall(r'<script type="application/json">(.*?)</script>', own)
    assert len(data) == own.count("<script") == 3
    for text in data:
        assert "<" not in text
        assert "&lt;/script>" in json.loads(text)["layout"]["xaxis"]["title"]["text"]


def test_control_characters_broken_names_and_marks_of_direction_are_shown():
    page = to_html(Report("a\x00b\udcff\x1b[31m\u202eevil", []))
    assert "<title>a\\x00b\\udcff\\x1b[31m\\u202eevil</title>" in page
    page.encode()


def test_a_page_that_is_too_large_is_one_line(monkeypatch):
    monkeypatch.setattr("fedswe.report.page._LARGEST", 1_000_000)
    to_html(Report("", [], [Section("", ["x" * 900_000])]))
    with pytest.raises(FedsweError, match="the page would have 1 MB: name fewer directories"):
        to_html(Report("", [], [Section("", ["x" * 1_100_000])]))


def test_nothing_is_loaded_only_its_scripts_run_and_it_is_the_same_every_time(comparison):
    page = to_html(report_on([comparison]))
    assert page == to_html(report_on([comparison]))
    assert len(page.encode()) < 6_000_000
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe-eval" not in policy
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!#|data:image/svg)', own)
    assert "http:" not in own
    assert "https:" not in own
