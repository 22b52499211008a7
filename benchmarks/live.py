"""What the live page costs: memory of its server, and CPU time of the run it follows, with 50 open pages.

    python benchmarks/live.py FOLDER [PAIRS]

Runs 10,000 rounds, each evaluated, alternately without a server and with one whose 50 pages show the run. A page is a
connection that fetches what a browser fetches and reads all events; the browsers themselves are not measured.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path

PAGES, ROUNDS = 50, 10_000
SETTINGS = (
    "task.name=quadratic", "task.centers=[0,1,2,3,4,5,6,7,8,9]", "availability.p=0.5", f"rounds={ROUNDS}",
    "evaluate.every=1",
)  # fmt: skip


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


def run(out: Path) -> float:
    """CPU seconds of a run."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fedswe", "run", *SETTINGS, "--out", str(out), "-q"], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime


def watched(folder: Path, out: Path) -> tuple[float, dict[str, float]]:
    server = subprocess.Popen(
        [sys.executable, "-m", "fedswe", "watch", str(folder), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
    pages = [Page(port) for _ in range(PAGES)]
    for page in pages:
        page.start()
    seconds = run(out)
    memory = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())[1]) / 1024
    server.terminate()
    _, _, used = os.wait4(server.pid, 0)
    for page in pages:
        page.join()
    return seconds, {
        "server_peak_mb": round(memory, 1),
        "server_cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "received_mb_per_page": round(statistics.mean(page.received for page in pages) / 1e6, 2),
        "pages_at_the_end": sum(page.round == ROUNDS for page in pages),
    }


def main() -> None:
    folder, pairs = Path(sys.argv[1]), int((*sys.argv, "3")[2])
    alone, beside = [], []
    for pair in range(pairs):
        order = ("alone", "watched") if pair % 2 else ("watched", "alone")
        for which in order:
            place = folder / f"{which}{pair}"
            if which == "alone":
                alone.append(run(place / "run"))
            else:
                seconds, measured = watched(place, place / "run")
                beside.append(seconds)
                print(json.dumps({"pair": pair, **measured}), flush=True)
        print(json.dumps({"pair": pair, "alone_cpu_s": alone[-1], "watched_cpu_s": beside[-1]}), flush=True)
    ratio = statistics.median(b / a for a, b in zip(alone, beside, strict=True))
    print(json.dumps({"median_ratio": round(ratio, 4), "of_minima": round(min(beside) / min(alone), 4)}))


main()
