"""A group is named by the algorithm and by what differs between runs of the same algorithm."""

import pytest

from fedswe.errors import FedsweWarning
from fedswe.figures.groups import groups_of
from fedswe.figures.measured import measured_runs
from tests.figures.runs import write_run


def names(tmp_path, *sections):
    paths = [write_run(tmp_path / str(i), **section) for i, section in enumerate(sections)]
    return [group.name for group in groups_of(measured_runs(paths))]


def test_parameters_that_differ_are_named(tmp_path):
    runs = [{"algorithm": {"k": 0.0}}, {"algorithm": {"k": 10.0}}, {"algorithm": {"name": "fedavg"}}]
    assert names(tmp_path, *runs) == ["fedswe k=0", "fedswe k=10", "fedavg"]


def test_rates_that_differ_between_algorithms_only_are_not_named(tmp_path):
    runs = [{"local": {"lr": 0.1}}, {"local": {"lr": 1.0}, "algorithm": {"name": "fedavg"}}]
    assert names(tmp_path, *runs) == ["fedswe", "fedavg"]


def test_rates_of_one_algorithm_are_named(tmp_path):
    assert names(tmp_path, {"local": {"lr": 0.1}}, {"local": {"lr": 1.0}}) == [
        "fedswe local.lr=0.1",
        "fedswe local.lr=1",
    ]


def test_another_availability_is_named_without_its_parameters(tmp_path):
    runs = [{}, {"availability": {"name": "markov", "sojourn": 5}}]
    assert names(tmp_path, *runs) == ["fedswe sine", "fedswe markov"]


def test_a_class_of_the_user_is_named_without_its_file(tmp_path):
    assert names(tmp_path, {"algorithm": {"name": "./mine.py:Mine"}}) == ["Mine"]


def test_long_values_that_look_alike_stay_apart(tmp_path):
    runs = [{"availability": {"p": [0.5] * 30 + [p]}} for p in (0.1, 0.2)]
    first, second = names(tmp_path, *runs)
    assert second == f"{first} (2)"


def test_the_same_run_twice_is_drawn_once(tmp_path):
    runs = measured_runs([write_run(tmp_path / "a"), write_run(tmp_path / "b")])
    with pytest.warns(FedsweWarning, match="two runs of fedswe have seed 3"):
        (group,) = groups_of(runs)
    assert len(group.runs) == 1


def test_threads_and_keys_that_an_earlier_version_did_not_have_make_no_other_group(tmp_path):
    """All from one configuration: with threads, without the key, and with a key more that has its default."""
    paths = [write_run(tmp_path / str(seed), seed) for seed in (3, 4, 5, 6)]
    text = (paths[0] / "config.toml").read_text().replace("seed = 3", "seed = {}").replace("[local]", "[local]\n{}")
    assert text.count("{}") == 2
    texts = [
        text.format(seed, more) for seed, more in ((3, ""), (4, ""), (5, "clip = 0"), (6, 'schedule = "constant"'))
    ]
    texts[1] = f"threads = 2\n{texts[1]}"
    for path, written in zip(paths, texts, strict=True):
        (path / "config.toml").write_text(written)
    groups = groups_of(measured_runs(paths))
    assert [[run.seed for run in group.runs] for group in groups] == [[3, 4, 5], [6]]
    assert [group.name for group in groups] == [
        "fedswe local.schedule=inverse_sqrt",
        "fedswe local.schedule=constant",
    ]


def test_missing_keys_of_an_algorithm_have_its_defaults(tmp_path):
    runs = [{"algorithm": {"name": "mifa"}}, {"algorithm": {"name": "mifa", "start": "zero"}, "seed": 4}]
    seeds = [write_run(tmp_path / str(i), **{"seed": 3, **run}) for i, run in enumerate(runs)]
    (group,) = groups_of(measured_runs(seeds))
    assert (group.name, len(group.runs)) == ("mifa", 2)


def test_runs_of_a_comparison_have_the_names_of_its_table(tmp_path):
    write_run(tmp_path / "c/runs/fedswe_k100-lr0.1-seed3")
    (tmp_path / "c/compare_runs.csv").write_text("algorithm,model,local_lr,seed\nfedswe:k=100,server,0.1,3\n")
    (group,) = groups_of(measured_runs([tmp_path / "c"]))
    assert group.name == "fedswe:k=100"
    other = write_run(tmp_path / "other", algorithm={"k": 5.0})
    groups = groups_of(measured_runs([tmp_path / "c", other]))
    assert [group.name for group in groups] == ["fedswe k=100", "fedswe k=5"]
