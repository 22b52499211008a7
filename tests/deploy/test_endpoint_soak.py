"""Two hundred rounds: memory and disk follow the number of clients, not the number of rounds."""

import ctypes
import gc
import os
from pathlib import Path

import pytest

from fedswe.deploy.audit.verify import verify
from fedswe.tasks import Quadratic
from tests.deploy.parts import Network, deployment

M, D, ROUNDS = 4, 30_000, 200
MODEL = 4 * D  # bytes


def resident():
    gc.collect()
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)(0)  # freed memory, of earlier tests too, goes back
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "delivery"), [("fedswe", "eager"), ("fedswe", "lazy"), ("mifa", "lazy")])
def test_a_soak_of_200_rounds(scratch, name, delivery):
    (scratch / "centers.csv").write_text("\n".join(",".join([str(i)] * D) for i in range(M)))
    task = Quadratic(centers_file=str(scratch / "centers.csv"))
    net = Network(scratch, deployment(name, task, ROUNDS, delivery, p=0.5))
    memory = disk = 0
    while not net.server.finished:
        net.round()
        if net.server.t == 40:
            memory = resident()
        if net.server.t % 50 == 0:
            net.restart()
        files = [p.stat().st_size for p in (scratch / "server").rglob("*.safetensors")]
        disk = max(disk, sum(files))
    models = 1 + 1 + M + 2  # start, state, one version per client, both models at the end
    models += 1 + M if name == "mifa" else 0  # its mean, and a row per client
    assert disk < models * MODEL + 100_000
    assert resident() - memory < 80 * MODEL  # a leak of one model a round would be 160; lines of the ledger stay
    assert verify(scratch / "server").exact
    net.server.release()
