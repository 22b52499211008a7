"""What the README shows works, and its numbers are measured."""

import csv
import re
from pathlib import Path

import pytest

import fedswe
from fedswe.experiment.configuration import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DIGITS = ROOT / "experiments" / "results" / "compare-digits.csv"
# Numbers of a machine, with the report on them, which names machine and date: they are not computed again.
OF_A_MACHINE = {"46,000 client-steps per second": "benchmarks/gpu_h200_2026-11-15.md"}


def test_its_two_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "test"):
        assert f"$ make {target}" in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


# the table of `make run` ------------------------------------------------------------------------------------------
def stored() -> dict[tuple[str, str], dict[str, str]]:
    with DIGITS.open(newline="") as text:
        return {(row["algorithm"], row["model"]): row for row in csv.DictReader(text)}


def accuracy(row: dict[str, str]) -> float:
    return 100 * float(row["test_accuracy_mean"])


def test_its_table_is_part_of_the_stored_comparison():
    (table,) = re.findall(r"```text\n(test accuracy.*?)```", README, re.DOTALL)
    (names,) = re.findall(r"^RULES := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = [
        [cell.strip(" *") for cell in line.strip("│").split("│")] for line in table.splitlines() if line[:1] == "│"
    ]
    assert {name for name, *_ in shown} == set(names.split(","))
    rows = stored()
    for name, *cells in shown:
        for model, score, rate in zip(("server", "client_mean"), cells[::2], cells[1::2], strict=True):
            row = rows[name, model]
            assert row["diverged"] == "0"
            std = 100 * float(row["test_accuracy_std"])
            assert (score, rate) == (f"{accuracy(row):.1f} ± {std:.1f}", row["local_lr"])


def test_a_row_of_its_table_measured_again():
    (rate,) = {stored()["fedswe", model]["local_lr"] for model in ("server", "client_mean")}
    value = load(ROOT / "examples" / "digits.toml", [f"local.lr={rate}"])
    result = fedswe.compare(value, ["fedswe"], seeds=[3, 4, 6])
    assert result.summary["model"].tolist() == ["server", "client_mean"]
    for row in result.summary.itertuples():
        assert 100 * row.test_accuracy_mean == pytest.approx(accuracy(stored()["fedswe", row.model]), abs=0.3)


def test_what_it_says_of_its_table():
    """FedSWE is not ahead of plain FedAvg, most others are within the spread; its better model is the client mean."""
    rows = stored()
    for model in ("server", "client_mean"):
        assert accuracy(rows["fedswe", model]) < accuracy(rows["fedavg", model])
        own = rows["fedavg", model]
        near = [
            row
            for row in rows.values()
            if row["model"] == model
            and abs(accuracy(row) - accuracy(own))
            < 100 * (float(row["test_accuracy_std"]) + float(own["test_accuracy_std"]))
        ]
        assert len(near) > len(fedswe.registry.names("algorithm")) / 2
    assert accuracy(rows["fedswe", "client_mean"]) > accuracy(rows["fedswe", "server"])


def test_verdicts_on_the_paper_are_those_of_its_claims():
    with (ROOT / "experiments" / "results" / "full-released" / "claims.csv").open(newline="") as text:
        statuses = {row["id"]: row["status"] for row in csv.DictReader(text)}
    said = re.findall(r"\[([\w ,]+), (?:exact|[\w ]+ seeds)\]\([\w/.-]+claims\.md#([\w-]+)\)", README)
    assert len(said) == 5
    assert [status for status, _ in said] == [statuses[claim] for _, claim in said]


# other numbers ----------------------------------------------------------------------------------------------------
def test_no_other_measured_number_is_written_by_hand():
    """Outside code: no number with digits after a point or a comma, in percent, or with a spread."""
    text = re.sub(r"<!--.*?-->|```.*?```|`[^`]*`|\]\([^)]*\)", "", README, flags=re.DOTALL)
    text = " ".join(text.split()).replace("Python 3.11", "")
    for known in OF_A_MACHINE:
        assert known in text
        text = text.replace(known, "")
    assert re.findall(r"\d+[.,]\d+|\d+ ?%|± ?\d", text) == []


def test_numbers_of_a_machine_are_in_its_report():
    for known, report in OF_A_MACHINE.items():
        number = int(known.split()[0].replace(",", ""))
        reported = [int(n.replace(",", "")) for n in re.findall(r"\b\d+,\d{3}\b", (ROOT / report).read_text())]
        assert any(round(n, -3) == number for n in reported if n != number)
