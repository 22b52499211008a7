"""What a run needs of memory is known before it starts."""

import numpy as np
import pytest

from fedswe.algorithms import ALGORITHMS, FedSWE
from fedswe.engine.memory import distinct_rows, private_columns
from tests import bench


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("fedswe", 0),
        ("fedavg", 0),
        ("fedau", 0),
        ("mifa", 1),
        ("fedvarp", 1),
        ("scaffold", 1),
        ("amplified_scaffold", 2),
    ],
)
def test_vectors_that_cannot_be_shared(name, columns):
    assert private_columns(ALGORITHMS[name]()) == columns


def test_rows_in_use_are_foreseen():
    present = bench.mask(200, 30)
    engine = bench.engine("batched", FedSWE(k=3), bench.quadratic(30), present)
    most = 0
    for _ in range(200):
        engine.step()
        most = max(most, engine.rows.distinct())
    assert most <= distinct_rows(present) <= most + 2
    assert len(engine.rows.table) <= 2 ** int(np.ceil(np.log2(distinct_rows(present)))) * 2
