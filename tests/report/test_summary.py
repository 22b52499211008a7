"""The sentences of a summary, for runs with known numbers."""

import csv
import io
import math

import pytest
import tomli_w

from fedswe.figures.measured import measured_runs
from fedswe.report.charts import Curves
from fedswe.report.judged import Judged
from fedswe.report.runs import run_sections
from fedswe.report.summary import summary
from tests.figures.runs import CONFIG, write_run


def sentences(*directories):
    return summary(Judged(measured_runs(directories)))


def write(path, seed, server, client_mean, name="fedswe"):
    """A run of 60 rounds with these test accuracies at its evaluations."""
    path.mkdir(parents=True)
    config = {**CONFIG, "rounds": 60, "seed": seed, "algorithm": {"name": name}}
    (path / "config.toml").write_text(tomli_w.dumps(config))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["round", "server_test_accuracy", "client_mean_test_accuracy"])
    for i, row in enumerate(zip(server, client_mean, strict=True)):
        writer.writerow([10 * i, *row])
    (path / "history.csv").write_text(text.getvalue())
    (path / "model.safetensors").write_bytes(write_run(path / "other").joinpath("model.safetensors").read_bytes())
    return path


def test_level_and_lower(tmp_path):
    runs = []
    for seed, accuracy in ((3, 0.90), (4, 0.91), (6, 0.92)):
        runs.append(write_run(tmp_path / f"a{seed}", seed, accuracy, algorithm={"name": "fedavg"}))
        beside = accuracy + 0.002 * (seed - 4)
        runs.append(write_run(tmp_path / f"b{seed}", seed, beside, algorithm={"name": "fedau"}))
        runs.append(write_run(tmp_path / f"c{seed}", seed, accuracy - 0.2, algorithm={"name": "mifa"}))
    first, server, *_ = sentences(*runs)
    assert first.startswith("9 runs of 3 kinds: digits, 30 clients, sine availability, 40 rounds, seeds 3, 4, 6")
    assert server == (
        "Server model: fedau has the highest test accuracy, 91.1 %; fedavg is level with it within the noise. "
        "mifa is lower by 20.1 ± 0.8 points."
    )


def test_an_unsteady_server_model(tmp_path):
    shaken, calm = [0.1, 0.9, 0.5, 0.9, 0.5, 0.9, 0.5], [0.1, 0.7, 0.701, 0.7, 0.701, 0.7, 0.701]
    runs = [write(tmp_path / "a", 3, shaken, calm), write(tmp_path / "b", 3, calm, calm, "fedavg")]
    found = [sentence for sentence in sentences(*runs) if "unsteady" in sentence]
    assert found == [
        "The server model of fedswe is unsteady, the client mean is not: over the last 50 rounds the test accuracy "
        "fluctuates by 32.7 points from one evaluation to the next, at the client mean by 0.1 points."
    ]


def test_a_slow_rise_is_not_unsteady(tmp_path):
    rising, calm = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0.7] * 7
    assert not any("steady" in sentence for sentence in sentences(write(tmp_path / "a", 3, calm, rising)))


def test_the_better_model_to_serve(tmp_path):
    runs = [write(tmp_path / str(s), s, [0.5 + s / 100] * 7, [0.8 + s / 90] * 7) for s in (3, 4, 6)]
    assert "For fedswe, the client mean is the better model to serve." in sentences(*runs)


def test_one_seed(tmp_path):
    runs = [write_run(tmp_path / n, 3, a, algorithm={"name": n}) for n, a in (("fedavg", 0.9), ("mifa", 0.5))]
    assert sentences(*runs)[1] == (
        "Server model: fedavg has the highest test accuracy, 90.0 %. There is one seed of each: differences cannot be "
        "told from noise."
    )


def test_order_and_difference_are_over_the_same_seeds(tmp_path):
    """The mean over all seeds of fedavg is higher, but it is lower with each seed that both have."""
    accuracies = {"fedavg": {3: 0.70, 4: 0.701, 5: 0.70, 6: 0.9, 7: 0.9}, "fedau": {3: 0.72, 4: 0.722, 5: 0.721}}
    runs = [
        write_run(tmp_path / f"{name}{seed}", seed, accuracy, algorithm={"name": name})
        for name, of in accuracies.items()
        for seed, accuracy in of.items()
    ]
    words, (scores, *_) = run_sections(measured_runs(runs))
    assert words[1] == (
        "Server model: fedau has the highest test accuracy, 72.1 %. fedavg is lower by 2.1 ± 0.1 points."
    )
    assert "Means and differences are over the seeds that all have in common, without 6 and 7." in words
    (table,) = scores.blocks
    assert [(row[0], row[1].text, row[1].mark) for row in table.rows] == [
        ("fedau", "72.1 ± 0.1", "first"),
        ("fedavg", "70.0 ± 0.1", "second"),
    ]
    assert "Only seeds that all have are counted, without 6, 7." in table.note


@pytest.mark.filterwarnings("ignore:.* is not finished")
def test_a_run_that_is_not_finished_is_not_ranked(tmp_path):
    """At equal rounds it would be level."""
    runs = []
    for seed in (3, 4, 6):
        runs.append(write_run(tmp_path / f"a{seed}", seed, 0.9, algorithm={"name": "fedavg"}))
        late = write_run(tmp_path / f"b{seed}", seed, 0.4, rounds=20, finished=False, algorithm={"name": "fedau"})
        runs.append(late)
    words, (scores, *_) = run_sections(measured_runs(runs))
    assert words[1] == "Server model: fedavg has the highest test accuracy of the finished runs, 90.0 %."
    assert words[-1].startswith("Not finished, and without final scores: ")
    (table,) = scores.blocks
    assert [row[0] for row in table.rows] == ["fedavg", "fedau"]
    assert table.rows[1][1:] == ["not finished", "", "not finished", ""]


@pytest.mark.filterwarnings("ignore:.* is not finished")
def test_runs_that_stand_at_the_same_round_are_compared(tmp_path):
    runs = [
        write_run(tmp_path / name, 3, accuracy, rounds=20, finished=False, algorithm={"name": name})
        for name, accuracy in (("fedavg", 0.9), ("mifa", 0.5))
    ]
    words = sentences(*runs)
    assert words[1].startswith("Server model: fedavg has the highest test accuracy, 90.0 %.")
    assert words[-1].startswith("Not finished: ")


def test_names_of_tasks_are_isolated(tmp_path):
    """A number after letters that are read from right to left would change places with them."""
    run = write_run(tmp_path / "a", task={"name": "m:\u05d0\u05d1", "clients": 30})
    assert sentences(run)[0].startswith("1 run: \u2068\u05d0\u05d1\u2069, 30 clients, ")
    _, sections = run_sections(measured_runs([run]))
    chart = next(block for section in sections for block in section.blocks if isinstance(block, Curves))
    assert chart.note.startswith("\u2068\u05d0\u05d1\u2069, 30 clients, ")


def test_one_run_is_not_ranked(tmp_path):
    words, sections = run_sections(measured_runs([write_run(tmp_path / "a", 3, 0.9)]))
    assert words[1] == "Server model: the test accuracy over the last 40 rounds is 90.0 %."
    assert "1st" not in sections[0].blocks[0].note


def test_diverged_runs_are_named(tmp_path):
    runs = [
        write(tmp_path / "a", 3, [0.5, math.nan, *[math.nan] * 5], [0.5] * 7, "mifa"),
        write(tmp_path / "b", 3, [0.5] * 7, [0.5] * 7, "fedavg"),
        write(tmp_path / "c", 4, [math.nan] * 7, [0.5] * 7, "fedavg"),
    ]
    found = sentences(*runs)
    assert "Server model: mifa diverged." in found
    assert "Server model: fedavg (1 of 2 seeds) diverged." in found
