"""A server process for tests: clients in the same process, each of which takes its time.

python -m tests.deploy.slow_server DIRECTORY ROUNDS METRICS_PORT [ABSENT_CLIENT...]
"""

import sys
import time
from pathlib import Path

from fedswe.deploy import InMemoryTransport, Rounds, ServerEndpoint
from tests.deploy.parts import quadratic


class Slow(InMemoryTransport):
    def poll(self, timeout):
        time.sleep(0.05)
        yield from super().poll(timeout)


def main(directory, rounds, port, *absent):
    deployment = quadratic(
        "fedswe", rounds=int(rounds), m=3, simulate_absence=False, min_clients=2, deadline=20.0, metrics_port=int(port)
    )
    with ServerEndpoint.open(Path(directory), deployment) as server:
        transport = Slow(deployment, Path(directory) / "clients")
        transport.online -= set(map(int, absent))
        Rounds(server, transport).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
