"""What is kept of a run."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from fedswe.errors import FedsweError
from fedswe.experiment.experiment import populate
from fedswe.experiment.runner import run
from fedswe.grid.store import Cell
from fedswe.gym.measurements import as_texts, from_texts, measure
from fedswe.gym.rules import Rule
from fedswe.gym.settings import SCALES, Setting
from fedswe.gym.trial import Trial
from fedswe.results.run_directory import RunDirectory
from tests.gym.rows import row

TRIAL = Trial(0.4, momentum=0.5)


def measured(experiment, setting, place):
    """A run, and what is kept of it."""
    notes = {"rule": "fedavg", "settings": "abc", "setting": setting.name, "source": "", "arithmetic": "cpu fp32"}
    notes |= asdict(TRIAL)
    result = run(experiment, out=place)
    return result, measure(Cell("x", experiment, notes), RunDirectory(place))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of the smallest scale, and what is kept of it."""
    setting = Setting(SCALES["ci"], "digits", "sine")
    experiment = setting.experiment(Rule("fedavg").table, TRIAL, 3, ("server", "client_mean"))
    return experiment, *measured(experiment, setting, tmp_path_factory.mktemp("gym") / "run")


def test_scores_are_means_over_the_last_rounds(kept):
    experiment, result, rows = kept
    assert [r.output for r in rows] == ["server", "client_mean"]
    last = [r for r in result.history.rows if r["round"] > experiment.rounds - experiment.evaluate.tail]
    for r in rows:
        assert r.test == pytest.approx(np.mean([h[f"{r.output}_test_accuracy"] for h in last]))
        assert r.held_out == pytest.approx(np.mean([h[f"{r.output}_held_out_accuracy"] for h in last]))


def test_accuracies_by_client_are_those_of_its_labels(kept):
    """Counted sample by sample: each client's test set has its own label shares."""
    experiment, result, rows = kept
    problem, schedule = populate(experiment)
    x = result.models["server"]
    with torch.no_grad():
        right = (problem.network.logits(x, problem.data.x_test).argmax(1) == problem.data.y_test).numpy()
    labels = problem.data.y_test.numpy()
    accuracy = []
    for shares in problem.realised:
        weight = np.array([shares[c] / (labels == c).sum() for c in labels])
        accuracy.append((weight * right).sum())
    present = np.array([[schedule.sample(t)[i] for t in range(experiment.rounds)] for i in range(problem.m)])
    share = present.mean(1)
    few = problem.m // 10
    assert rows[0].worst_tenth == pytest.approx(np.mean(sorted(accuracy)[:few]))
    seen = [i for i in np.argsort(share, kind="stable") if share[i] > 0][:few]
    assert rows[0].rare == pytest.approx(np.mean([accuracy[i] for i in seen]))
    if (share == 0).any():
        assert rows[0].never == pytest.approx(np.mean([a for a, s in zip(accuracy, share, strict=True) if s == 0]))


def test_a_trial_reads_back_exactly():
    trial = Trial(0.000390625, 4.0, 0.5, 0.05, "constant")
    assert from_texts(as_texts([row(trial=trial)]), "here")[0].trial == trial


def test_a_table_reads_back_as_it_was_written(kept):
    rows = [*kept[2], row(never=math.nan, curve=(), rounds=(), rule="./a b,c.py:X:k=1")]
    again = from_texts(as_texts(rows), "here")
    assert as_texts(again).equals(as_texts(rows))
    assert again[-1].rule == "./a b,c.py:X:k=1"
    assert again[0].rounds == rows[0].rounds


@pytest.mark.parametrize(("column", "damage"), [("test", "0.5 0.5"), ("curve", "x"), ("seed", None)])
def test_a_damaged_table_is_one_line(column, damage):
    texts = as_texts([row(), row(seed=4)])
    for table in (texts.assign(**{column: damage}), texts.drop(columns=column)):
        with pytest.raises(FedsweError, match=rf"^the table is damaged \({column}: .*\): delete it to measure again$"):
            from_texts(table, "the table")


def test_a_trace_is_known_by_its_content_wherever_it_is(monkeypatch, tmp_path):
    setting = Setting(replace(SCALES["ci"], availabilities={"fedscale": {}}), "digits", "fedscale")
    digests = []
    for name, end in (("a", 9), ("b", 9), ("c", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fedscale300_48h.csv").write_text(f"client,start,end\n0,0,{end}\n")
        monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path / name))
        digests.append(setting.digest(("server",)))
    here = digests[-1]
    assert digests[0] == digests[1] != digests[2]
    assert Setting(replace(setting.scale, rounds=13), "digits", "fedscale").digest(("server",)) != here
