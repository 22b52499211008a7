"""fedswe reproduce, as a user meets it."""

import csv
import hashlib
import os
import re
import signal
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from fedswe_paper.claims import CLAIMS
from fedswe_paper.profile import DEVIATIONS
from fedswe_paper.recipes import RECIPES
from fedswe_paper.results import CampaignStore, load_runs
from fedswe_paper.selection import Selection
from tests.cli.command import fedswe
from tests.paper.handmade import FULL, Story
from tests.paper.test_store import put
from tests.results.test_locks import claimed_by_child

CI = Selection("ci", "released")
ROOT = Path(__file__).parents[2]
STORED = ROOT / "experiments" / "results"


@pytest.fixture
def cli(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *words: fedswe(monkeypatch, capsys, *words)


def test_list(cli):
    code, out, err = cli("reproduce", "--list")
    assert (code, err) == (0, "")
    for recipe in RECIPES.values():
        runs = len(recipe.cells(Selection("full", "released")))
        assert re.search(rf"{recipe.name} .*{recipe.number}.* {runs or '—'} ", out)
    assert re.search(r"claims .*text", out)
    assert re.search(r"coverage .*text", out)


def test_profiles(cli):
    code, out, _ = cli("reproduce", "--profiles")
    assert code == 0
    for deviation in DEVIATIONS:
        for key in (*deviation.paper, *deviation.released):
            assert key in out  # the table may break the line before the value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a recipe of fedswe reproduce --list, or --all"),
        (["fig6", "--status", "--report"], "--status and --report cannot be combined"),
        (["fig6", "--bounded", "--report"], "--bounded and --report cannot be combined"),
        (["fig6", "--bounded", "--profile", "paper"], "--bounded is for --profile released"),
        (["fig6", "--all"], "name a recipe of fedswe reproduce --list, or --all"),
        (["main-tabel"], "unknown recipe 'main-tabel': did you mean main-table?"),
        (["fig6", "xyz"], "unknown recipe 'xyz': see fedswe reproduce --list"),
        (["fig6", "--scale", "huge"], "'--scale': 'huge' is not one of 'ci', 'small', 'full'"),
        (["fig6", "--cells", "*-k7-*"], "no run matches --cells '*-k7-*': the first is called fashion_mnist-periodic-"),
        (["fig2", "--cells", "*-k7-*"], "no run matches --cells '*-k7-*': these recipes run nothing"),
        (["fig6", "--profile", "mine"], "'--profile': 'mine' is not one of 'paper', 'released'"),
        (["fig6", "--dataset", "mnist"], "unknown --dataset 'mnist': choose from svhn, cifar10, cinic10, digits"),
        (["fig6", "--dynamics", "sin"], "unknown --dynamics 'sin': choose from stationary, staircase, sine"),
        (["fig6", "--algorithms", "scaffold"], "unknown --algorithms 'scaffold': choose from fedswe, fedavg"),
        (["fig6", "--seeds", "3,x"], "--seeds must be whole numbers or ranges such as 1-5"),
        (["fig6", "--jobs", "-1"], "--jobs must be 0 (one per core, one for a GPU) or positive, not -1"),
        (["fig2", "fig6", "--algorithms", "mifa"], "no run of fig2, fig6 is of mifa: choose others with --dataset"),
        (["fig7", "--scale", "full", "--dataset", "cifar10"], "no run of fig7 is of cifar10: choose others"),
        (["fig6", "--rounds", "-1"], "--rounds must be 0 (those of the scale) or positive, not -1"),
        (["fig6", "--precision", "fp8"], "--precision"),
        (["fig6", "--device", "tpu"], "tpu"),
    ],
)
def test_mistakes_get_one_line(cli, tmp_path, words, message):
    code, out, err = cli("reproduce", *words, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_data_that_are_not_there_are_named(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSWE_DATA", str(tmp_path / "nothing"))
    words = ("main-table", "--scale", "full", "--dataset", "cifar10", "--dynamics", "sine", "--seeds", "3")
    code, _, err = cli("reproduce", *words, "--jobs", "1", "--out", tmp_path / "out")
    assert code == 2
    assert re.match(r"error: full-released/cifar10-sine-\S+-seed3: cifar10 is not in ", err)
    assert err.count("\n") == 1


def test_status_counts_finished_running_and_left(cli, tmp_path):
    store = CampaignStore(tmp_path)
    put(store, CI.cell("digits", "sine", ("fedavg", 0.0)), Story(50.0))
    held = replace(CI.cell("digits", "sine", ("mifa", 0.0)), seed=3)
    child = claimed_by_child(store.lock_file(held.grid_cell()))
    try:
        words = "reproduce", "slowdown-table", "--scale", "ci", "--out", tmp_path, "--status"
        code, out, _ = cli(*words)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert code == 0
    assert "1 finished, 1 running, 5 left" in out
    assert f"running   {held.name}" in out
    assert not (tmp_path / "ci-released").exists()


def test_cells_are_chosen_by_name(cli, tmp_path):
    words = "reproduce", "fig6", "--scale", "ci", "--out", str(tmp_path), "--status", "--cells"
    assert "0 finished, 0 running, 1 left" in cli(*words, "*-static-*-k0-*")[1]
    assert "0 finished, 0 running, 3 left" in cli(*words, "*-k0-*,*-static-fedswe-k1-*")[1]


def test_report_runs_nothing(cli, tmp_path):
    put(CampaignStore(tmp_path), CI.cell("digits", "sine", ("fedavg", 0.0)), Story(51.25))
    code, out, _ = cli("reproduce", "main-table", "--scale", "ci", "--out", tmp_path, "--report")
    assert code == 0
    assert "main-table.md" in out
    assert len(load_runs(tmp_path, "ci-released")) == 1
    sheet = pd.read_csv(tmp_path / "ci-released" / "main-table.csv").set_index(["algorithm", "column"])
    assert sheet["ours_mean"].dropna().to_dict() == pytest.approx(
        {("FedAvg, active", "train"): 0.0, ("FedAvg, active", "test"): 51.25}
    )


def test_another_data_set_has_pages_of_its_own_and_the_scales_own_has_not(cli, tmp_path):
    for dataset, folder in (("digits", "ci-released"), ("fashion_mnist", "ci-released-fashion_mnist")):
        words = "reproduce", "slowdown-table", "--scale", "ci", "--dataset", dataset, "--out", tmp_path / dataset
        assert cli(*words, "--report")[0] == 0
        page = tmp_path / dataset / folder / "slowdown-table.md"
        assert (f"--profile released --dataset {dataset}`" in page.read_text()) == (dataset != "digits")


def test_runs_with_bounded_gradients_are_kept_apart(cli, tmp_path):
    words = ("reproduce", "fig7", "--scale", "ci", "--cells", "*-static-mifa-*", "--out", tmp_path)
    code, out, _ = cli(*words, "--bounded", "--jobs", "1")
    assert code == 0
    assert "runs      0 of 1 finished before, 1 left\n" in out
    assert [len(load_runs(tmp_path, grid)) for grid in ("ci-released", "ci-released-guarded")] == [0, 1]
    assert cli(*words, "--status")[1] == "runs      0 finished, 0 running, 1 left\n"
    assert cli(*words, "--status", "--bounded")[1] == "runs      1 finished, 0 running, 0 left\n"


@pytest.mark.parametrize(("scale", "said"), [("ci", True), ("small", False)])
def test_verdicts_without_meaning_are_said_to_have_none(cli, tmp_path, scale, said):
    _, out, _ = cli("reproduce", "claims", "--scale", scale, "--report", "--out", tmp_path)
    assert ("no meaning        runs of 10 to 20 rounds are too short" in out) == said
    assert ("**No meaning**" in (tmp_path / f"{scale}-released/claims.md").read_text()) == said


@pytest.mark.parametrize(
    ("fedswe_k0", "status"), [(70.0, "holds"), (60.0, "does not hold"), (None, "not yet measured")]
)
def test_claims_are_judged_and_never_an_error(cli, tmp_path, fedswe_k0, status):
    """At the paper's own size: FedSWE with k = 0 against FedAvg at 65 %; None: nothing measured."""
    if fedswe_k0 is not None:
        for seed in (3, 4, 6):
            put(CampaignStore(tmp_path), FULL.cell("cifar10", "sine", ("fedswe", 0.0)), Story(fedswe_k0), seed)
            put(CampaignStore(tmp_path), FULL.cell("cifar10", "sine", ("fedavg", 0.0)), Story(65.0), seed)
    code, out, err = cli("reproduce", "claims", "--scale", "full", "--out", tmp_path)
    assert (code, err) == (0, "")
    statuses = pd.read_csv(tmp_path / "full-released" / "claims.csv").set_index("id")["status"]
    assert set(statuses.index) == {claim.id for claim in CLAIMS}
    assert statuses["k0-above-fedavg"] == status
    ahead = "—" if fedswe_k0 is None else f"{fedswe_k0 - 65:+.1f}".replace("-", "−")
    margin = [ahead] * 4 if fedswe_k0 is None else [ahead, "0.0", "0.0", "3"]
    (line,) = [line for line in out.splitlines() if "k0-above-fedavg " in line]
    assert [cell.strip() for cell in line.strip("│ ").split("│")][3:] == margin
    _, out, _ = cli("reproduce", "main-table", "--scale", "full", "--out", tmp_path, "--report")
    (line,) = [line for line in out.splitlines() if "k0-above-fedavg " in line]
    assert line.strip("│ ").split("│")[1].strip() == status
    page = (tmp_path / "full-released" / "main-table.md").read_text()
    assert f"[k0-above-fedavg](claims.md#k0-above-fedavg): {status}\n" in page


DIGESTS = {  # of claims.csv, where no page needs it
    "full-paper": "c718b376fce2db54a328a533a0e20063854ca0e87b972b6c7bd5b93537011546",
    "small-paper": "49077642db0e5705f150ccf686658eb98d7a07e8f1dc0cbf4f5224e2a01c03f4",
}


@pytest.mark.parametrize("grid", ["full-released", "small-released", "full-paper", "small-paper"])
def test_the_verdicts_on_the_stored_runs_do_not_change(cli, tmp_path, monkeypatch, grid):
    """The command as documented, in a checkout: here in a folder that has the stored runs."""
    scale, profile = grid.split("-")
    results = tmp_path / "experiments" / "results"
    results.mkdir(parents=True)
    (results / f"{scale}.parquet").symlink_to(STORED / f"{scale}.parquet")
    monkeypatch.chdir(tmp_path)
    code, _, err = cli("reproduce", "claims", "coverage", "--scale", scale, "--profile", profile)
    assert (code, err) == (0, "")
    for name in ("claims.csv", "claims.md", "coverage.md"):
        found, kept = (results / grid / name).read_text(), STORED / grid / name
        if kept.is_file():
            assert found == kept.read_text(), f"run fedswe reproduce --all --scale {scale} --report and commit {name}"
    if grid in DIGESTS:
        assert hashlib.sha256((results / grid / "claims.csv").read_bytes()).hexdigest() == DIGESTS[grid]
    margins = pd.read_csv(results / grid / "claims-margins.csv")
    lost = margins["margin_status"] == "diverged, undecided"
    assert (margins["margin"].isna() == lost).all()
    unknown = margins["standard_error"].isna()  # one seed, and no row with three on this data set
    assert (lost | (margins["margin_status"] == "undecided"))[unknown].all()
    assert (unknown | (margins["seeds"] == "exact") | (margins["standard_error"] > 0)).all()


@pytest.mark.slow
def test_everything_at_ci_scale(cli, tmp_path):
    """Every run, table, figure and claim, from nothing."""
    words = ("reproduce", "--all", "--scale", "ci", "--out", tmp_path)
    code, out, err = cli(*words, "--jobs", "1")  # the processes of a grid are for test_grid.py
    assert (code, err) == (0, "")
    cells = {cell.name for recipe in RECIPES.values() for cell in recipe.cells(CI)}
    assert {run.cell.name for run in load_runs(tmp_path, "ci-released")} == cells
    assert f"0 of {len(cells)} finished before, {len(cells)} left" in out
    code, out, _ = cli(*words, "--status")
    assert (code, out) == (0, f"runs      {len(cells)} finished, 0 running, 0 left\n")
    folder = tmp_path / "ci-released"
    for name, recipe in RECIPES.items():
        page = (folder / f"{name}.md").read_text()
        assert page.startswith(f"# {recipe.number}: ")
        shown = re.findall(r"!\[.*\]\((.*)\)", page)
        assert shown or "| --- " in page
        assert all((folder / picture).is_file() for picture in shown)
    for path in sorted(folder.iterdir()):
        check(path)
    assert {path.suffix for path in folder.iterdir()} == {".md", ".csv", ".png", ".svg"}
    assert pd.read_csv(folder / "main-table.csv")["ours_mean"].between(0, 100).all()
    open_claims = pd.read_csv(folder / "claims.csv").query("status == 'not yet measured'")["id"]
    # ten rounds reach no target and leave the rivals at chance, and there is no k near the number of clients
    expected = ("slow", "beats-unaided", "accuracy-peaks-near-m", "rounds-shrink-then-grow")
    assert all(any(words in claim for words in expected) for claim in open_claims)
    assert (folder / "coverage.md").is_file()


def check(path):
    """The file is what its name says."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            image.load()
            assert min(image.size) > 200
    elif path.suffix == ".svg":
        assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    elif path.suffix == ".csv":
        rows = list(csv.reader(path.read_text().splitlines()))
        assert len(rows) > 1
        assert {len(row) for row in rows} == {len(rows[0])}


def test_the_page_about_it_names_real_options_and_recipes(cli):
    page = (ROOT / "docs" / "reproduce.md").read_text()
    code, out, _ = cli("reproduce", "--help")
    assert code == 0
    about = re.sub(r"^\$ fedswe data.*$", "", page, flags=re.MULTILINE)  # another command
    assert set(re.findall(r"--[a-z]+", about)) <= set(re.findall(r"--[a-z]+", out))
    named = {word for line in re.findall(r"fedswe reproduce ([^`\n]*)", page) for word in line.split("#")[0].split()}
    recipes = {word for word in named if re.fullmatch(r"[a-z]+-table|fig\d+|claims|coverage", word)}
    assert {"claims", "coverage"} <= recipes <= {*RECIPES, "claims", "coverage"}
