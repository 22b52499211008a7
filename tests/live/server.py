"""Real servers and real runs as processes, and events read as a page reads them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection

QUICK = ("task.name=quadratic", "task.centers=[0,1,2,3,4,5,6,7,8,9]", "availability.p=0.5", "algorithm.name=fedavg")
PATIENCE = 120.0  # seconds; the machine may be busy


class LiveServer:
    def __init__(self, directories, port=0):
        self.process = _fedswe("watch", *map(str, directories), "--port", str(port), stdout=subprocess.PIPE)
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", self.process.stdout.readline())
        assert found, "the server did not start"
        self.address, self.port = found[0], int(found[1])

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.stdout.close()
        return self.process.wait(PATIENCE)

    def ask(self, path="/", method="GET", host=None, **headers):
        """The answer to a request that is sent as it is: status, headers, body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.putrequest(method, path, skip_host=True)
        for name, value in {"Host": host or f"127.0.0.1:{self.port}", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def events(self, *ids):
        """Names and contents of events, as they arrive."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/events?" + "&".join(f"id={id_}" for id_ in ids))
        answer, name = connection.getresponse(), ""
        assert answer.status == 200
        try:
            while line := answer.readline():
                word, _, text = line.decode().rstrip("\n").partition(": ")
                if word == "event":
                    name = text
                elif word == "data":
                    yield name, json.loads(text)
        finally:
            connection.close()

    def item(self, holds):
        """The first thing in the list of which this is true; waits for it."""
        end = time.monotonic() + PATIENCE
        for name, message in self.events():
            for item in message.get("items", []) if name == "items" else []:
                if holds(item):
                    return item
            assert time.monotonic() < end, "it did not appear"
        raise AssertionError("the stream ended")


class Runs:
    """Runs as processes; those that have not ended are killed with the test."""

    def __init__(self):
        self._started = []

    def start(self, out, *settings):
        return self._begin("run", *QUICK, *settings, "--out", str(out))

    def resume(self, out):
        return self._begin("run", "--resume", str(out))

    def _begin(self, *words):
        self._started.append(_fedswe(*words))
        return self._started[-1]

    def end(self):
        for run in self._started:
            run.kill()
            run.wait()


def until(holds, what):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def _fedswe(*words, **options):
    command = [sys.executable, "-m", "fedswe", *words]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    return subprocess.Popen(command, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)
