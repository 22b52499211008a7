"""What the live page costs: memory of its server, and CPU time of the run it follows, with 50 open pages.

    python benchmarks/live.py FOLDER [PAIRS]

First a run of 10,000 rounds, each evaluated, with 50 pages that show it. Then one long run, in turn with and without
the server and its pages: the CPU time per round of its process in neighbouring slices of ten seconds is compared, since
on a machine that others use, whole runs differ by more than what is to be measured. A page is a connection that fetches
what a browser fetches and reads all events; the browsers themselves are not measured.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

PAGES, ROUNDS, SLICE = 50, 10_000, 10.0
SETTINGS = ("task.name=quadratic", "task.centers=[0,1,2,3,4,5,6,7,8,9]", "availability.p=0.5", "evaluate.every=1")


class Page(threading.Thread):
    """Reads the list, then the curve and the strip of the run."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.received, self.round = port, 0, 0

    def run(self) -> None:
        for path in ("/", "/live.css", "/live.js", "/list.js", "/charts.js", "/plotly.js"):
            self._ask(path).read()
        id_ = self._read("", until_found=True)
        self._read(f"?id={id_}")

    def _ask(self, path: str):
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", path)
        return connection.getresponse()

    def _read(self, query: str, until_found: bool = False) -> str:
        name = ""
        for line in self._ask(f"/events{query}"):
            self.received += len(line)
            word, _, text = line.decode().rstrip("\n").partition(": ")
            if word == "event":
                name = text
            elif word == "data" and name == "items" and until_found:
                for item in json.loads(text)["items"]:
                    return item["id"]
            elif word == "data" and name == "curve" and (tip := json.loads(text)["tip"]):
                self.round = tip[0]
        return ""


@contextmanager
def pages_on(folder: Path):
    """A server and its pages; the server's process."""
    command = [sys.executable, "-m", "fedswe", "watch", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
    pages = [Page(port) for _ in range(PAGES)]
    for page in pages:
        page.start()
    yield server, pages
    server.terminate()
    server.wait()
    for page in pages:
        page.join()


def started(folder: Path, rounds: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "fedswe", "run", *SETTINGS, f"rounds={rounds}", "--out", str(folder), "-q"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def whole_run(folder: Path) -> None:
    folder.mkdir(parents=True)
    with pages_on(folder) as (server, pages):
        assert started(folder / "run", ROUNDS).wait() == 0
        status = Path(f"/proc/{server.pid}/status").read_text()
        memory = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
        server_seconds = cpu_seconds(server.pid)
    print(json.dumps({
        "server_peak_mb": round(memory, 1), "server_cpu_s": server_seconds,
        "received_mb_per_page": round(statistics.mean(page.received for page in pages) / 1e6, 2),
        "pages_at_the_end": sum(page.round == ROUNDS for page in pages),
    }), flush=True)  # fmt: skip


def cpu_seconds(process: int) -> float:
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def slice_of(process: int, folder: Path) -> float:
    """CPU milliseconds per round in the next ten seconds."""

    def now() -> tuple[float, int]:
        with open(folder / "history.csv", "rb") as file:
            file.seek(-400, os.SEEK_END)
            return cpu_seconds(process), int(file.read().split(b"\n")[-2].split(b",")[0])

    before, began = now()
    time.sleep(SLICE)
    after, ended = now()
    return 1000 * (after - before) / (ended - began)


def slices(folder: Path, pairs: int) -> None:
    run = started(folder / "run", 10**6)
    history = folder / "run" / "history.csv"
    while not history.is_file() or history.stat().st_size < 100_000:
        time.sleep(0.5)
    alone, watched = [], []

    def measure(with_pages: bool) -> None:
        if not with_pages:
            alone.append(slice_of(run.pid, folder / "run"))
            return
        with pages_on(folder) as (_, pages):
            while not all(page.round for page in pages):
                time.sleep(0.2)
            watched.append(slice_of(run.pid, folder / "run"))

    for pair in range(pairs):
        for with_pages in (pair % 2 == 0, pair % 2 == 1):
            measure(with_pages)
        print(json.dumps({"alone_ms": round(alone[-1], 4), "watched_ms": round(watched[-1], 4)}), flush=True)
    run.kill()
    run.wait()
    ratios = [b / a for a, b in zip(alone, watched, strict=True)]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    print(json.dumps({
        "median_ratio": round(statistics.median(ratios), 4), "mean_ratio": round(statistics.mean(ratios), 4),
        "standard_error": round(error, 4), "of_sums": round(sum(watched) / sum(alone), 4),
    }))  # fmt: skip


def main() -> None:
    folder, pairs = Path(sys.argv[1]), int((*sys.argv, "16")[2])
    whole_run(folder / "whole")
    slices(folder / "slices", pairs)


main()
