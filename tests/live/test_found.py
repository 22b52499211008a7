"""What is found below a directory."""

import csv
import os

from fedswe.live.found import find, id_of


def folder(path, *files):
    path.mkdir(parents=True)
    for name in files:
        (path / name).write_text("")


def test_runs_comparisons_grids_and_gyms(tmp_path):
    folder(tmp_path / "runs" / "001-one", "config.toml")
    folder(tmp_path / "runs" / "002-compare" / "runs" / "a-seed3", "config.toml")
    folder(tmp_path / "runs" / "002-compare" / ".locks")
    (tmp_path / "runs" / "002-compare" / ".locks" / "planned.txt").write_text("a-seed3\na-seed4\n")
    folder(tmp_path / "results" / "cells" / "part", "x.csv", "x.toml")
    folder(tmp_path / "results" / "work" / "part" / "y", "config.toml")
    folder(tmp_path / "gym" / "ci" / "work" / "sine" / "fedavg-lr1-seed2", "config.toml")
    (tmp_path / "gym" / "ci" / "work" / "planned.txt").write_text("sine/fedavg-lr1-seed1\n")
    with open(tmp_path / "gym" / "ci" / "sine.csv", "w", newline="") as file:
        csv.writer(file).writerows([["rule", "rate", "seed"], ["fedavg", 1.0, 1]])
    found = find([tmp_path])
    top = tmp_path.name
    assert {(run.name, run.grid != "") for run in found.runs.values()} == {
        (f"{top}/runs/001-one", False), ("a-seed3", True), ("part/x", True), ("part/y", True),
        ("sine/fedavg-lr1-seed2", True),
    }  # fmt: skip
    grids = {grid.name.removeprefix(f"{top}/"): grid for grid in found.grids.values()}
    assert {name: grid.form for name, grid in grids.items()} == {
        "runs/002-compare": "comparison", "results": "grid", "gym/ci": "gym",
    }  # fmt: skip
    assert grids["runs/002-compare"].planned == ("a-seed3", "a-seed4")
    assert grids["results"].done == {"part/x"}
    assert grids["gym/ci"].done == {"sine/fedavg-lr1-seed1"}


def test_links_hidden_folders_and_loops_are_left_out(tmp_path):
    folder(tmp_path / "runs" / "one", "config.toml")
    folder(tmp_path / "elsewhere" / "two", "config.toml")
    folder(tmp_path / "runs" / ".hidden" / "three", "config.toml")
    os.symlink(tmp_path / "elsewhere", tmp_path / "runs" / "link")
    os.symlink(tmp_path / "runs", tmp_path / "runs" / "loop")
    assert [run.path for run in find([tmp_path / "runs"]).runs.values()] == [tmp_path / "runs" / "one"]


def test_a_directory_that_is_not_there_has_nothing(tmp_path):
    assert find([tmp_path / "missing"]).runs == {}


def test_ids_do_not_tell_a_path(tmp_path):
    assert id_of(tmp_path) == id_of(tmp_path)
    assert id_of(tmp_path) != id_of(tmp_path / "a")
    assert len(id_of(tmp_path)) == 16
