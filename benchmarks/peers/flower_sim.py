"""FedAvg with Flower's simulation engine (Ray)."""

from __future__ import annotations

import os
import tempfile

# Before Flower is imported, which reads them then: nothing leaves the machine, nothing is kept in the home folder.
os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on any system: Ray then listens on the loopback address only
}

import argparse

from flower_app import client_app, server_app
from flwr.simulation import run_simulation
from workloads import WORKLOADS, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--workers", type=int, default=2, help="processes that train clients")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in each")
    args = parser.parse_args()
    workload = WORKLOADS[args.workload]
    rounds = min(workload.rounds, 10)  # 40 rounds of softmax would take half a minute
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FLWR_HOME"] = folder
        run_simulation(
            server_app=server_app(workload, workload.warmup + rounds, args.threads, times),
            client_app=client_app,
            num_supernodes=workload.clients,
            backend_config={
                "init_args": {
                    "num_cpus": args.workers,
                    "include_dashboard": False,
                    "_temp_dir": folder,
                },
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    report("flower", workload, times, ["flwr", "ray"], processes=args.workers, threads=args.threads)


if __name__ == "__main__":
    main()
