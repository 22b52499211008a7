"""Directories of runs and comparisons are read; whatever is damaged is said in one line."""

import os

import pytest

from fedswe.errors import FedsweError, FedsweWarning
from fedswe.figures.measured import measured_runs
from tests.figures.runs import write_run


@pytest.fixture
def comparison(tmp_path):
    """fedswe with rate 1 for the server and 0.1 for the mean of the clients, and runs that chose the rates."""
    for seed, rates in ((1, (0.1, 1)), (3, (0.1, 1))):
        for rate in rates:
            write_run(tmp_path / f"c/runs/fedswe_k10-lr{rate}-seed{seed}", seed, local={"lr": float(rate)})
    return tmp_path / "c"


RUNS = "algorithm,model,local_lr,seed\nfedswe:k=10,server,1,3\nfedswe:k=10,client_mean,0.1,3\n"
TIDY = """algorithm,seed,local_lr,tuning,chosen,round,model,score,value
fedswe:k=10,1,0.1,true,false,0,server,test_accuracy,0.1
fedswe:k=10,1,0.1,true,true,0,client_mean,test_accuracy,0.1
fedswe:k=10,3,1,false,true,0,server,test_accuracy,0.1
fedswe:k=10,3,1,false,true,20,server,test_accuracy,0.1
fedswe:k=10,3,1,false,false,0,client_mean,test_accuracy,0.1
fedswe:k=10,3,0.1,false,false,0,server,test_accuracy,0.1
fedswe:k=10,3,0.1,false,true,0,client_mean,test_accuracy,0.1
"""


@pytest.mark.parametrize(("name", "text"), [("compare_runs.csv", RUNS), ("compare.csv", TIDY)])
def test_a_comparison_counts_a_run_for_the_models_that_it_was_chosen_for(comparison, name, text):
    (comparison / name).write_text(text)
    found = {(run.seed, run.config["local"]["lr"]): run.models for run in measured_runs([comparison])}
    assert found == {(3, 1.0): ("server",), (3, 0.1): ("client_mean",)}
    assert {run.label for run in measured_runs([comparison])} == {"fedswe:k=10"}


@pytest.mark.parametrize("directory", ["fedswe-lr0.1234567-seed3", "fedswe-lr0.123457-seed3"])
def test_a_rate_of_many_digits_is_found_also_where_an_earlier_version_wrote_six(directory, tmp_path):
    write_run(tmp_path / "runs" / directory, local={"lr": 0.1234567})
    table = "algorithm,seed,local_lr,tuning,chosen,round,model,score,value\n"
    (tmp_path / "compare.csv").write_text(f"{table}fedswe,3,0.1234567,false,true,0,server,test_loss,1\n")
    (run,) = measured_runs([tmp_path])
    assert (run.label, run.source) == ("fedswe", str(tmp_path / "runs" / directory))


def test_rates_that_agree_to_six_digits_are_different_runs(tmp_path):
    table = "algorithm,seed,local_lr,tuning,chosen,round,model,score,value\n"
    for rate, model in ((0.1, "server"), (0.10000001, "client_mean")):
        write_run(tmp_path / f"runs/fedswe-lr{rate}-seed3", local={"lr": rate})
        table += f"fedswe,3,{rate},false,true,0,{model},test_loss,1\n"
    (tmp_path / "compare.csv").write_text(table)
    found = {run.config["local"]["lr"]: run.models for run in measured_runs([tmp_path])}
    assert found == {0.1: ("server",), 0.10000001: ("client_mean",)}


def test_an_interrupted_comparison_is_drawn_with_a_warning(comparison):
    with pytest.warns(FedsweWarning, match="is not finished: all its runs are drawn"):
        assert len(measured_runs([comparison])) == 4


def test_a_score_belongs_to_the_longest_name(tmp_path):
    write_run(tmp_path / "a", evaluate={"model": ["server", "ema", "ema:0.9"]})
    head, *rows = (tmp_path / "a/history.csv").read_text().splitlines()
    head = head.replace("client_mean_test_loss", "ema_test_loss").replace("client_mean_test_accuracy", "ema_0.9_loss")
    (tmp_path / "a/history.csv").write_text("\n".join([head, *rows]))
    (run,) = measured_runs([tmp_path / "a"])
    assert (run.scores("ema"), run.scores("ema_0.9")) == (["test_loss"], ["loss"])


def damaged(path, file, content):
    write_run(path)
    (path / file).write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.toml", b"[[[", "config.toml is not valid TOML"),
        ("config.toml", b"\xff\xfe", "cannot read .*config.toml: not UTF-8"),
        ("config.toml", b"x = " + b"[" * 3000 + b"]" * 3000, "config.toml is not valid TOML"),
        ("config.toml", b"x" + b".a" * 3000 + b" = 1", "config.toml is not valid TOML"),
        ("config.toml", b"seed = 0x" + b"f" * 6000, "whole number has more than 64 bits"),
        ("config.toml", b"[local]\nlr = [1" + b"0" * 400 + b"]", "whole number has more than 64 bits"),
        ("config.toml", b"seed = 3", "no section algorithm"),
        ("config.toml", b"algorithm = 3", "no section algorithm"),
        ("history.csv", b"", "has no rounds"),
        ("history.csv", b"round,a\n0,1,2\n", "history.csv is damaged"),
        ("history.csv", b"round,a\n0,one\n", "history.csv is damaged"),
        ("history.csv", b"round,a\n0," + b"1" * 200_000 + b"\n", "history.csv is damaged"),
        ("history.csv", b"round,a\n1,1\n0,1\n", "do not rise"),
        ("history.csv", b"round,a\nnan,1\n", "do not rise"),
        ("history.csv", b"a\n1\n", "has no rounds"),
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
    (tmp_path / "compare.csv").write_text("algorithm,model,local_lr,seed\na,server,0.1,3\n")
    run.rename(tmp_path / "runs" / "a-lr0.1-seed3")
    with pytest.raises(FedsweError, match=f"has no {file} yet"):
        measured_runs([tmp_path])


@pytest.mark.parametrize("content", [b"algorithm\n1\n", b"\xff", b"algorithm,model,local_lr,seed\na,server,x,3\n"])
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
