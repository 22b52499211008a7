"""What a server with many pages needs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES, ROUNDS, LIMIT = 50, 10_000, 300  # MB


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say how much memory is used")
def test_fifty_pages_of_a_run_of_ten_thousand_rounds_fit_in_memory(watch, tmp_path):
    run = tmp_path / "runs" / "long"
    run.mkdir(parents=True)
    (run / "config.toml").write_text(f'rounds = {ROUNDS}\n[evaluate]\nmodel = ["server"]\n')
    columns = ["round", *(f"server_{i}" for i in range(14))]
    rows = [",".join([str(t), *(repr(t / (i + 1)) for i in range(14))]) for t in range(ROUNDS + 1)]
    (run / "history.csv").write_text("\n".join([",".join(columns), *rows]) + "\n")
    (run / "reported.txt").write_text("clients 100\n" + ("a5" * 13 + "\n") * ROUNDS)
    server = watch(tmp_path / "runs")
    id_ = server.item(lambda item: item["kind"] == "run")["id"]
    pages = [server.events(id_) for _ in range(PAGES)]
    for page in pages:
        received = dict(message for _, message in zip(range(3), page, strict=False))  # items, curve, strip
        assert received["curve"]["tip"][0] == ROUNDS
        assert 1000 <= len(received["curve"]["rows"]) <= 2000
        assert received["strip"]["rounds"] == ROUNDS
    used = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[1]) / 1024
    for page in pages:
        page.close()
    assert used < LIMIT


def test_the_server_does_not_import_torch():
    loaded = "import sys, fedswe.live.serve, fedswe.live.beside; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True) == "False\n"
