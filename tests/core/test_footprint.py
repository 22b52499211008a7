"""What is counted from the definitions of algorithms; the page on algorithms has these numbers."""

import re
from pathlib import Path

from fedswe.algorithms.fedavg import FedAvg, FedAvgKnown
from fedswe.algorithms.fedswe import FedSWE
from fedswe.core.footprint import Operations, footprint, in_d, operations
from tests.algorithms import ALGORITHMS

PAGE = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()


def test_the_table_of_what_algorithms_keep_and_send():
    rows = {}
    for line in re.search(r"\| algorithm \| server .*?\n\n", PAGE, re.DOTALL)[0].splitlines()[2:]:
        names, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows |= dict.fromkeys(re.findall(r"`(\w+)`", names), cells)
    assert rows.keys() == set(ALGORITHMS)
    for name, cells in rows.items():
        f = footprint(ALGORITHMS[name](), 1000)
        counted = [in_d(n, 1000) for n in (f.server, f.client, f.down, f.up, f.reply)]
        if name == "fedswe_variant":
            counted[3] = counted[3].removeprefix("2")  # the row says in brackets that it sends two vectors
        assert [re.sub(r" \(.*\)", "", cell) for cell in cells[:5]] == counted, name
        assert ("true probabilities" in cells[6]) == ALGORITHMS[name].needs_probabilities
        assert ("plain local SGD" in cells[6]) == ALGORITHMS[name].needs_plain_sgd
        assert ("trains while" in cells[6]) == ALGORITHMS[name].trains_while_absent


def test_operations_are_those_of_the_definition():
    """FedAvg: end - start; x + lr/|A| sum. FedSWE: start + lr (t - last) (end - start); (sum + k x) / (|A| + k)."""
    assert operations(FedAvg(), 1000) == Operations(server=2000, client=1000)
    assert operations(FedSWE(), 1000) == Operations(server=3000, client=4001)
    assert operations(FedAvgKnown(), 1000) == Operations(server=2000, client=2000)
    clipped = operations(FedAvg(clip=0.5), 1000)
    assert clipped.client == 1000
    assert clipped.server >= 2000 + 2 * 1000 + 1000  # the norm, and its factor times the step
