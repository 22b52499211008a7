"""The speeds on the page that compares with other software are those of the stored measurement."""

import re

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "which-rule.md").read_text()
RESULTS = (ROOT / "benchmarks" / "peers" / "RESULTS.md").read_text()


def test_its_speeds_are_measured():
    (head, cnn, softmax) = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\| (?:\||CNN|softmax).*$", PAGE, re.MULTILINE)
        if "plain loop" in line or re.match(r"\| (CNN|softmax)", line)
    ]
    engines = {"plain loop": "plain", "Flower": "flower", "pfl (2 processes)": "pfl-2"}
    engines |= {"fedswe": "fedswe", "fedswe, bf16": "fedswe-bf16"}
    assert set(engines) == set(head[1:])
    for workload, cells in {"cnn": cnn, "softmax": softmax}.items():
        for column, shown in zip(head[1:], cells[1:], strict=True):
            row = re.search(
                rf"^\| {workload} \| {engines[column]} \|.*\| ([\d.]+) \([^|]*\) \|$", RESULTS, re.MULTILINE
            )
            assert row is not None
            assert row[1] == shown
