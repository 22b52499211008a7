"""The baseline: FedAvg as a plain PyTorch loop, one client after another, one model, one optimizer."""

from __future__ import annotations

import argparse
import time

import torch
from workloads import LEARNING_RATE, WORKLOADS, Workload, build, data, report, train

THREADS = {"cnn": 2, "softmax": 1}  # the faster of one and two on two cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--threads", type=int, help="of torch")
    args = parser.parse_args()
    threads = args.threads or THREADS[args.workload]
    torch.set_num_threads(threads)
    workload = WORKLOADS[args.workload]
    report("plain", workload, loop(workload), [], processes=1, threads=threads)


def loop(workload: Workload) -> list[float]:
    data(workload.name)
    model = build(workload)
    parameters = list(model.parameters())
    # Plain SGD has no state, so one optimizer serves every client.
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE)
    server = [p.detach().clone() for p in parameters]
    times = [time.perf_counter()]
    for _ in range(workload.warmup + workload.rounds):
        total = [torch.zeros_like(p) for p in server]
        for client in torch.randperm(workload.clients)[: workload.per_round].tolist():
            for p, s in zip(parameters, server, strict=True):
                p.data.copy_(s)
            train(model, optimizer, workload, client)
            for t, p in zip(total, parameters, strict=True):
                t += p.detach()
        server = [t / workload.per_round for t in total]
        times.append(time.perf_counter())
    return times


if __name__ == "__main__":
    main()
