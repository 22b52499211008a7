"""FedAvg with pfl's simulation, in one process or several."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

import torch
from workloads import WORKLOADS, report

THREADS = {"cnn": 2, "softmax": 1}  # of one process: the faster of one and two on two cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--workers", type=int, default=1, help="processes that train clients")
    parser.add_argument("--threads", type=int, help="of torch, in each (default: one if several processes)")
    args = parser.parse_args()
    threads = args.threads or (THREADS[args.workload] if args.workers == 1 else 1)
    if args.workers > 1 and "RANK" not in os.environ:
        sys.exit(launch(args.workers))
    torch.set_num_threads(threads)
    if args.workers > 1:
        meet_in_file()
    from pfl_app import simulate  # not earlier: pfl joins the other processes when it is imported

    workload = WORKLOADS[args.workload]
    times = simulate(workload)
    if args.workers > 1:
        # Else one process now and then aborts at exit, when the other has left before it.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    if os.environ.get("RANK", "0") == "0":
        name = "pfl" if args.workers == 1 else f"pfl-{args.workers}"
        report(name, workload, times, ["pfl"], processes=args.workers, threads=threads)


def launch(workers: int) -> int:
    """Run one process per rank, with the variables that torchrun would set; the first failure's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(workers):
            variables = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": workers,
                "LOCAL_WORLD_SIZE": workers,
                "TORCHELASTIC_RUN_ID": "peers",
                "GLOO_SOCKET_IFNAME": "lo",
                "PEERS_STORE": f"{folder}/store",
            }
            environment = os.environ | {name: str(value) for name, value in variables.items()}
            processes.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
        return max(abs(process.wait()) for process in processes)


def meet_in_file() -> None:
    """Let the processes find one another through a file: the default store listens on every network address."""
    join = torch.distributed.init_process_group

    def join_by_file(backend: str) -> None:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        join(backend, init_method=f"file://{os.environ['PEERS_STORE']}", rank=rank, world_size=size)

    torch.distributed.init_process_group = join_by_file


if __name__ == "__main__":
    main()
