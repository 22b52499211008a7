"""Runs are read, grouped and named, and their traffic is counted; whatever is damaged is said in one line."""

import os

import numpy as np
import pytest

from fedswe.comparison.measured_run import groups_of, measured_runs, runs_table
from fedswe.errors import FedsweError, FedsweWarning
from fedswe.figures import plot
from tests.figures.runs import write_run


@pytest.fixture
def comparison(tmp_path):
    """fedswe with rate 1 for the server and 0.1 for the mean of the clients, and runs that chose the rates."""
    for seed, rates in ((1, (0.1, 1)), (3, (0.1, 1))):
        for rate in rates:
            write_run(tmp_path / f"c/runs/fedswe_k10-lr{rate}-seed{seed}", seed, local={"lr": float(rate)})
    return tmp_path / "c"


HEAD = "algorithm,seed,local_lr,tuning,chosen,round,model,score,value\n"
TIDY = f"""{HEAD}fedswe:k=10,1,0.1,true,false,0,server,test_accuracy,0.1
fedswe:k=10,1,0.1,true,true,0,client_mean,test_accuracy,0.1
fedswe:k=10,3,1,false,true,0,server,test_accuracy,0.1
fedswe:k=10,3,1,false,true,20,server,test_accuracy,0.1
fedswe:k=10,3,1,false,false,0,client_mean,test_accuracy,0.1
fedswe:k=10,3,0.1,false,false,0,server,test_accuracy,0.1
fedswe:k=10,3,0.1,false,true,0,client_mean,test_accuracy,0.1
"""


def test_a_comparison_counts_a_run_for_the_models_that_it_was_chosen_for(comparison):
    (comparison / "compare.csv").write_text(TIDY)
    found = {(run.seed, run.config["local"]["lr"]): tuple(run.reported) for run in measured_runs([comparison])}
    assert found == {(3, 1.0): ("server",), (3, 0.1): ("client_mean",)}
    assert {run.label for run in measured_runs([comparison])} == {"fedswe:k=10"}


def test_rates_that_agree_to_six_digits_are_different_runs(tmp_path):
    table = HEAD
    for rate, model in ((0.1, "server"), (0.10000001, "client_mean")):
        write_run(tmp_path / f"runs/fedswe-lr{rate}-seed3", local={"lr": rate})
        table += f"fedswe,3,{rate},false,true,0,{model},test_loss,1\n"
    (tmp_path / "compare.csv").write_text(table)
    found = {run.config["local"]["lr"]: tuple(run.reported) for run in measured_runs([tmp_path])}
    assert found == {0.1: ("server",), 0.10000001: ("client_mean",)}


def test_an_interrupted_comparison_is_drawn_with_a_warning(comparison):
    with pytest.warns(FedsweWarning, match="is not finished: all its runs are drawn"):
        assert len(measured_runs([comparison])) == 4


def test_a_score_belongs_to_the_longest_name(tmp_path):
    write_run(tmp_path / "a", evaluate={"model": ["server", "ema", "ema:0.9"]})
    head, *rows = (tmp_path / "a/history.csv").read_text().splitlines()
    head = head.replace("client_mean_test_loss", "ema_test_loss").replace("client_mean_test_accuracy", "ema_0.9_loss")
    (tmp_path / "a/history.csv").write_text("\n".join([head, *rows]))
    table = runs_table(measured_runs([tmp_path / "a"]))
    assert {model: list(of.unique()) for model, of in table.groupby("model")["score"]} == {
        "": ["available", "reported", "seconds"], "server": ["test_loss", "test_accuracy"], "ema": ["test_loss"],
        "ema_0.9": ["loss"],
    }  # fmt: skip


def damaged(path, file, content):
    write_run(path)
    (path / file).write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.toml", b"[[[", "config.toml is not valid TOML"),
        ("config.toml", b"seed = 3", "algorithm.name is missing"),
        ("config.toml", b"seed = 3\nalgorithm = 3", "algorithm.name is missing"),
        ("history.csv", b"", "history.csv is missing or damaged"),
        ("history.csv", b"round,a\n0,1,2\n", "history.csv is missing or damaged"),
        ("history.csv", b"round,a\n0," + b"1" * 200_000 + b"\n", "history.csv is missing or damaged"),
        ("history.csv", b"round,a\n1,1\n0,1\n", "do not rise"),
        ("history.csv", b"round,a\nnan,1\n", "do not rise"),
        ("model.safetensors", b"\x00" * 20, "model.safetensors is damaged"),
    ],
)
def test_damaged_files_are_one_line(file, content, message, tmp_path):
    with pytest.raises(FedsweError, match=message):
        measured_runs([damaged(tmp_path / "a", file, content)])


def test_a_run_without_models_is_one_line(tmp_path):
    with pytest.raises(FedsweError, match=r"evaluate\.model must be a list of names"):
        measured_runs([write_run(tmp_path / "a", evaluate={"model": []})])


@pytest.mark.parametrize("file", ["config.toml", "history.csv"])
def test_a_pipe_is_not_waited_for(file, tmp_path):
    run = write_run(tmp_path / "runs" / "a")
    (run / file).unlink()
    os.mkfifo(run / file)
    (tmp_path / "compare.csv").write_text(f"{HEAD}a,3,0.1,false,true,0,server,loss,1\n")
    run.rename(tmp_path / "runs" / "a-lr0.1-seed3")
    with pytest.raises(FedsweError, match=f"has no {file} yet"):
        measured_runs([tmp_path])


@pytest.mark.parametrize("content", [b"algorithm\n1\n", b"\xff", f"{HEAD}a,x,0.1,false,true,,,,\n".encode()])
def test_a_damaged_table_of_a_comparison_is_one_line(content, comparison):
    (comparison / "compare.csv").write_bytes(content)
    with pytest.raises(FedsweError, match=r"compare\.csv is damaged"):
        measured_runs([comparison])


@pytest.mark.parametrize("what", ["nothing", "empty", 3])
def test_what_is_no_run_is_refused(what, tmp_path):
    (tmp_path / "empty").mkdir()
    source = tmp_path / what if isinstance(what, str) else what
    with pytest.raises(FedsweError, match=r"no directory|neither a run|cannot draw int"):
        measured_runs([source])


# groups
def names(tmp_path, *sections):
    paths = [write_run(tmp_path / str(i), **section) for i, section in enumerate(sections)]
    return list(groups_of(measured_runs(paths)))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([{"algorithm": {"k": 0.0}}, {"algorithm": {"k": 10.0}}, {"algorithm": {"name": "fedavg"}}],
         ["fedswe k=0", "fedswe k=10", "fedavg"]),
        ([{"local": {"lr": 0.1}}, {"local": {"lr": 1.0}, "algorithm": {"name": "fedavg"}}], ["fedswe", "fedavg"]),
        ([{"local": {"lr": 0.1}}, {"local": {"lr": 1.0}}], ["fedswe local.lr=0.1", "fedswe local.lr=1"]),
        ([{}, {"availability": {"name": "markov", "sojourn": 5}}], ["fedswe sine", "fedswe markov"]),
        ([{"algorithm": {"name": "./mine.py:Mine"}}], ["Mine"]),
    ],
)  # fmt: skip
def test_groups_are_named_by_what_differs(runs, expected, tmp_path):
    assert names(tmp_path, *runs) == expected


def test_long_values_that_look_alike_stay_apart(tmp_path):
    runs = [{"availability": {"p": [0.5] * 30 + [p]}} for p in (0.1, 0.2)]
    first, second = names(tmp_path, *runs)
    assert second == f"{first} (2)"


def test_the_same_run_twice_is_drawn_once(tmp_path):
    runs = measured_runs([write_run(tmp_path / "a"), write_run(tmp_path / "b")])
    with pytest.warns(FedsweWarning, match="two runs of fedswe have seed 3"):
        (group,) = groups_of(runs).values()
    assert len(group) == 1


def test_threads_and_records_make_no_other_group(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed, record={"name": f"r{seed}"}) for seed in (3, 4)]
    (runs[1] / "config.toml").write_text("threads = 2\n" + (runs[1] / "config.toml").read_text())
    assert {name: len(of) for name, of in groups_of(measured_runs(runs)).items()} == {"fedswe": 2}


def test_runs_of_a_comparison_have_the_names_of_its_table(tmp_path):
    write_run(tmp_path / "c/runs/fedswe_k100-lr0.1-seed3")
    (tmp_path / "c/compare.csv").write_text(f"{HEAD}fedswe:k=100,3,0.1,false,true,0,server,loss,1\n")
    assert list(groups_of(measured_runs([tmp_path / "c"]))) == ["fedswe:k=100"]
    other = write_run(tmp_path / "other", algorithm={"k": 5.0})
    assert list(groups_of(measured_runs([tmp_path / "c", other]))) == ["fedswe k=100", "fedswe k=5"]


# traffic
@pytest.mark.parametrize(("every", "estimated"), [(1, ""), (10, " (estimated)")])
def test_bytes_are_counted_or_estimated(every, estimated, tmp_path):
    path = write_run(tmp_path / "a", every=every, algorithm={"name": "fedavg"})
    (run,) = measured_runs([path])
    per_round = 10 * 4 * 2 * 650  # reports, bytes of a number, the model down and up
    np.testing.assert_allclose(run.bytes_sent(), per_round * np.arange(0, 41, every))
    assert plot(path, x="bytes").axes[0].get_xlabel() == f"MB sent by all clients{estimated}"


def test_without_a_model_the_size_is_not_known(tmp_path):
    run = write_run(tmp_path / "a", finished=False)
    with pytest.warns(match="not finished"), pytest.raises(FedsweError, match='use x="rounds"'):
        plot(run, x="bytes")
