"""Cells: two profiles that differ by what they say, the paper's constants at full scale, names that never clash."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from fedswe.datasets import DATASETS
from fedswe.engine.base import availability_of
from fedswe.experiment.configuration import dump
from fedswe.experiment.experiment import populate
from fedswe_paper.profile import DEVIATIONS, READINGS, settings
from fedswe_paper.recipes import RECIPES
from fedswe_paper.scale import SCALES
from fedswe_paper.selection import Selection
from tests.tasks.test_golden_populations import PRESENT, SIZES, LabelsOnly, P, labels_of

FULL = Selection("full", "released")


def flat(experiment):
    """section.key -> value."""
    table = tomllib.loads(dump(experiment))
    return {
        f"{section}.{key}" if isinstance(part, dict) else section: value
        for section, part in table.items()
        for key, value in (part.items() if isinstance(part, dict) else [("", part)])
    }


def cells_of(name, choice=FULL):
    return set(RECIPES[name].cells(choice))


def everything(choice):
    return {cell for name in RECIPES for cell in cells_of(name, choice)}


@pytest.mark.parametrize("scale", SCALES)
def test_profiles_differ_by_their_deviations_and_nothing_else(scale):
    seen = set()
    for cell in {replace(cell, seed=3) for cell in everything(Selection(scale, "released"))}:
        paper, released = (flat(replace(cell, profile=profile).experiment()) for profile in ("paper", "released"))
        images = cell.dataset in DATASETS and cell.dataset != "fashion_mnist"
        read = READINGS[cell.reading].settings if cell.reading else {}  # the same in both
        meant = [
            {k: v for k, v in settings(p, cell.algorithm, images).items() if "." in k and k not in read}
            for p in ("paper", "released")
        ]
        assert {k for k in paper if paper[k] != released.get(k)} == set(meant[0]) == set(meant[1])
        assert all(paper[key] == value for key, value in meant[0].items())
        assert all(released[key] == value for key, value in meant[1].items())
        seen |= set(meant[0])
    known = {key for d in DEVIATIONS for key in d.paper if "." in key and (scale == "full" or not d.images)}
    assert seen == known


def test_only_fedswe_is_judged_by_the_client_mean_and_only_as_released():
    for cell in everything(FULL):
        assert cell.judged_by == ("client_mean" if cell.algorithm == "fedswe" else "server")
        assert replace(cell, profile="paper").judged_by == "server"
        assert cell.judged_by in cell.experiment().evaluate.model


def test_full_scale_is_the_papers():
    table_6 = {"fedswe": 0.1, "fedavg_known": 0.1, "gfedavg": 0.005}  # all others 0.05
    for cell in {cell for cell in everything(FULL) if not (cell.rate or cell.reading)}:
        value = flat(cell.experiment())
        assert (value["task.clients"], value["local.steps"], value["local.batch_size"]) == (100, 10, 128)
        assert (value["local.lr"], value["algorithm.lr"]) == (table_6.get(cell.algorithm, 0.05), 1.0)
        assert value["task.hold_out"] == 0
        if cell.periodic:
            assert value["rounds"] == {"svhn": 10_000, "cifar10": 20_000}[cell.dataset]
            assert (value["local.schedule"], value["evaluate.tail"]) == ("constant", 500)
            assert (value["task.partition"], value["availability.period"]) == ("two_groups", 100)
        else:
            assert value["rounds"] == (1000 if cell.p else 2000)
            assert (value["local.schedule"], value["evaluate.tail"]) == ("inverse_sqrt", 50)
            assert value["task.partition"] == "dirichlet"
    assert {cell.seed for cell in everything(FULL)} == {3, 4, 6}
    assert {cell.k for cell in cells_of("fig8")} == {0, 1, 10, 50, 100, 200, 500}


def test_names_are_unique_and_say_what_differs():
    for scale in SCALES:
        for profile in ("paper", "released"):
            cells = everything(Selection(scale, profile))
            assert len({cell.name for cell in cells}) == len({dump(cell.experiment()) for cell in cells}) == len(cells)


@pytest.mark.parametrize("scale", SCALES)
def test_recipes_share_runs(scale):
    choice = Selection(scale, "released")
    main = cells_of("main-table", choice)
    assert cells_of("slowdown-table", choice) <= main
    for name, key, value in (("gamma-table", "gamma", 0.3), ("alpha-table", "alpha", 0.1)):
        shared = {cell for cell in cells_of(name, choice) if getattr(cell, key) == value}
        assert shared
        assert shared <= main
    for first in (7, 10):
        sweep, rivals = cells_of(f"fig{first + 1}", choice), cells_of(f"fig{first}", choice)
        assert sweep == cells_of(f"fig{first + 2}", choice) <= cells_of("fig6", choice)
        assert {cell.k for cell in sweep & rivals} == {0, 100}


def test_a_recipe_runs_what_it_is_asked_for():
    asked = Selection("full", "paper", ("cifar10",), ("sine",), ("fedswe",), seeds=(9,), rounds=50)
    assert [cell.name for cell in RECIPES["main-table"].cells(asked)] == [
        f"cifar10-sine-fedswe-k{k}-rounds50-seed9" for k in (0, 100)
    ]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_heeds_what_is_asked_for(name, scale):
    everything = cells_of(name, Selection(scale, "released"))
    for dynamics in {cell.dynamics for cell in everything} | {"staircase"}:
        asked = cells_of(name, Selection(scale, "released", dynamics=(dynamics,)))
        assert asked == {cell for cell in everything if cell.dynamics == dynamics}
    for algorithm in {cell.algorithm for cell in everything} | {"fedau"}:
        asked = cells_of(name, Selection(scale, "released", algorithms=(algorithm,)))
        assert asked == {cell for cell in everything if cell.algorithm == algorithm}
    if scale == "full":  # a data set of which the recipe has no table has no runs either: no report would show them
        for dataset in DATASETS:
            asked = cells_of(name, Selection(scale, "released", datasets=(dataset,)))
            assert asked == {cell for cell in everything if cell.dataset == dataset}


def test_as_many_rounds_as_a_run_has_anyway_are_the_same_run():
    for name in ("main-table", "fig3", "fig7"):
        for rounds in (1000, 2000, 10_000):
            for cell in cells_of(name, replace(FULL, rounds=rounds)):
                usual = replace(cell, rounds=0)
                assert cell.rounds == (0 if usual.experiment().rounds == rounds else rounds)
                assert cell.experiment().rounds == rounds


@pytest.mark.parametrize("source", ["real", "generated"])
@pytest.mark.parametrize("seed", [3, 4, 6])
def test_a_cell_of_cifar10_has_the_clients_of_the_released_code(seed, source):
    """The experiment of a cell itself, on the real images where they are there; else on labels as many and mixed."""
    for model in {model for name, at, model in PRESENT if (name, at) == ("cifar10", seed)}:
        cell = FULL.cell("cifar10", model.__name__.lower(), ("fedavg", 0.0))
        experiment = replace(cell, seed=seed).experiment()
        if source == "generated":
            labels = LabelsOnly(labels=tuple(labels_of("cifar10", source).tolist()), alpha=experiment.task.alpha)
            experiment = replace(experiment, task=labels)
        elif not DATASETS["cifar10"].found(DATASETS["cifar10"].folder()):
            pytest.skip("no cifar10 in $FEDSWE_DATA")
        problem, schedule = populate(experiment)
        sizes = problem.samples.sizes(np.arange(problem.m))
        assert (sizes.min(), sizes.max()) == SIZES["cifar10"][seed]
        assert availability_of(schedule, 6).sum(1).tolist() == PRESENT["cifar10", seed, model]
        if model.__name__ == "Stationary":
            np.testing.assert_allclose(schedule.prob(0)[:5], P[seed], atol=6e-7)
