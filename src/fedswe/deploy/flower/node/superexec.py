"""Flower's SuperExec with preloaded ClientApps: `python -m fedswe.deploy.flower.node.superexec HANDLE OPTIONS...`.

HANDLE is the file descriptor for signs of life. Flower chooses an executor by name and has no place to add one; the
function that makes it is replaced.
"""

from __future__ import annotations

import os
import sys

from fedswe.deploy.flower.node.clientapps import PreloadedClientApps
from fedswe.deploy.flower.node.signs_of_life import Sender, end_at_the_first_signal
from fedswe.errors import FedsweError


def main() -> None:
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec import run_superexec

    executor = PreloadedClientApps(Sender(int(sys.argv.pop(1))))
    assert hasattr(run_superexec, "get_executor"), "this version of Flower makes its executor elsewhere"
    run_superexec.get_executor = lambda *_, **__: executor
    os.environ["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = "0.01"  # Flower's smallest: the executor waits instead
    end_at_the_first_signal()  # not earlier: the ClientApps must not ignore signals
    try:
        flower_superexec()
    except FedsweError as error:
        sys.exit(f"error: {error}")
    except BrokenPipeError:
        sys.exit("error: the node has ended")


if __name__ == "__main__":
    main()
