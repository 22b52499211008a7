"""How fast local training is on this machine, against a plain PyTorch loop in the same run.

    python benchmarks/throughput.py [--device cuda] [--precision bf16] [--workloads cnn] [--json]

A client-step is one SGD step of one client: drawing the batch, the random crop, the gradient, the update, and its share
of gathering, aggregation and scattering. Evaluation is not included. Both are measured in turn; the repetition with the
median ratio is shown.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import get_args

import numpy as np
import torch
from torch.nn import functional as F

from fedswe.algorithms import FedAvg
from fedswe.availability.mask import Rows
from fedswe.core.local import Local, Precision
from fedswe.engine.batched import BatchedEngine
from fedswe.tasks.batches import Augment, Augmentation
from fedswe.tasks.client_samples import PooledSamples
from fedswe.tasks.data_set import DataSet
from fedswe.tasks.losses import Objective
from fedswe.tasks.network import Network
from fedswe.tasks.networks import NETWORKS
from fedswe.tasks.problem import Setting
from fedswe.tasks.supervised_problem import SupervisedProblem


@dataclass(frozen=True)
class Workload:
    """FedAvg over a fixed number of clients per round, on random data (pixels do not change the speed)."""

    name: str
    network: str
    shape: tuple[int, ...]
    clients: int
    samples: int  # per client
    per_round: int
    steps: int
    batch: int
    crop: int
    flops: float  # of one client-step's products, forward and backward

    @property
    def client_steps(self) -> int:
        """Per round."""
        return self.per_round * self.steps


def cnn(per_round: int) -> Workload:
    """The paper's network for SVHN, 273,706 parameters."""
    return Workload("cnn", "svhn_cnn", (3, 32, 32), max(100, per_round), 500, per_round, 10, 128, 4, 2.47e9)


def softmax(per_round: int = 100) -> Workload:
    """Softmax regression, 784 inputs: so little arithmetic that the overhead of an engine dominates."""
    return Workload("softmax", "softmax", (784,), 1000, 100, per_round, 5, 20, 0, 6 * 20 * 7840)


@dataclass(frozen=True)
class Result:
    """The repetition with the median ratio: its two rates and their ratio belong together."""

    workload: str
    per_round: int
    precision: str
    client_steps_per_s: float
    plain_steps_per_s: float
    ratio: float
    tflops: float
    share_of_ceiling: float  # of the measured rate of large matrix products in the same precision
    peak_memory_gb: float
    device: str
    threads: int  # of fedswe
    plain_threads: int


def measure(workload: Workload, device: str, precision: Precision, repetitions: int, seconds: float) -> Result:
    """Measure the plain loop and the engine in turn, `repetitions` times, about `seconds` each in all.

    Each uses the number of threads that is fastest for it.
    """
    bench = _Bench(workload, torch.device(device), precision)
    for one_round in (bench.plain_round, bench.engine_round):
        one_round()  # allocations, compilation
    slice_, threads = seconds / repetitions, torch.get_num_threads()
    try:
        plain_threads = bench.best_threads(bench.plain_round, slice_)
        engine_threads = bench.best_threads(bench.engine_round, slice_)
        measured = []
        for done in range(1, repetitions + 1):
            torch.set_num_threads(plain_threads)
            plain = bench.rate(bench.plain_round, slice_)
            torch.set_num_threads(engine_threads)
            ours = bench.rate(bench.engine_round, slice_)
            measured.append((ours / plain, ours, plain))
            note = f"fedswe {ours:,.0f}, plain loop {plain:,.0f} client-steps/s"
            print(f"{workload.name} {done}/{repetitions}: {note}", file=sys.stderr)
    finally:
        torch.set_num_threads(threads)
    ratio, ours, plain = sorted(measured)[(repetitions - 1) // 2]
    tflops = ours * workload.flops / 1e12
    return Result(
        workload=workload.name,
        per_round=workload.per_round,
        precision=precision,
        client_steps_per_s=ours,
        plain_steps_per_s=plain,
        ratio=ratio,
        tflops=tflops,
        share_of_ceiling=tflops / ceiling(device, precision),
        peak_memory_gb=bench.peak_memory_gb(),
        device=torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        threads=engine_threads,
        plain_threads=plain_threads,
    )


class _Bench:
    def __init__(self, workload: Workload, device: torch.device, precision: Precision) -> None:
        self.workload, self.device = workload, device
        rng = np.random.default_rng(0)
        total = workload.clients * workload.samples
        data = DataSet(
            rng.standard_normal((total, *workload.shape), dtype=np.float32), rng.integers(0, 10, total),
            rng.standard_normal((1, *workload.shape), dtype=np.float32), np.array([9]),
        )  # fmt: skip
        parts = list(np.arange(total).reshape(workload.clients, workload.samples))
        module = NETWORKS[workload.network](workload.shape, 10)
        setting = Setting(0, torch.float32, device)
        self.problem = SupervisedProblem(
            PooledSamples(data, parts, setting), Network(module), Objective.of("cross_entropy"), setting,
            Augmentation(workload.crop),
        )  # fmt: skip
        self.local = Local(workload.steps, workload.batch, 0.05, "constant", precision=precision)
        self.module = NETWORKS[workload.network](workload.shape, 10).to(device)
        self.images = torch.as_tensor(data.x_train).to(device)  # in the layout that a plain loop uses
        self.labels = torch.as_tensor(data.y_train).to(device)
        present = np.zeros((1000, workload.clients), dtype=bool)
        for row in present:
            row[rng.choice(workload.clients, workload.per_round, replace=False)] = True
        self.present = present
        self.engine = BatchedEngine(
            FedAvg(), self.problem, Rows(present, np.ones((1, workload.clients))), self.local, 0
        )
        self._round = 0

    def engine_round(self) -> None:
        self.engine.t %= 1000
        self.engine.step()

    def plain_round(self) -> None:
        """One model, one client after another, plain SGD on random batches and crops."""
        self._round = (self._round + 1) % 1000
        clients = np.flatnonzero(self.present[self._round])
        start = [p.detach().clone() for p in self.module.parameters()]
        total = [torch.zeros_like(p) for p in start]
        for client in clients:
            with torch.no_grad():
                for p, value in zip(self.module.parameters(), start, strict=True):
                    p.copy_(value)
            optimiser = torch.optim.SGD(self.module.parameters(), lr=0.05)
            for index in self._plain_batches(int(client)):
                inputs = self.images[index]
                if self.workload.crop:
                    inputs = self._random_crop(inputs)
                optimiser.zero_grad()
                F.cross_entropy(self.module(inputs), self.labels[index]).backward()
                optimiser.step()
            with torch.no_grad():
                for sum_, p in zip(total, self.module.parameters(), strict=True):
                    sum_ += p
        with torch.no_grad():
            for p, sum_ in zip(self.module.parameters(), total, strict=True):
                p.copy_(sum_ / len(clients))

    def _plain_batches(self, client: int) -> Iterator[torch.Tensor]:
        w = self.workload
        for _ in range(w.steps):
            yield client * w.samples + torch.randperm(w.samples, device=self.device)[: w.batch]

    def _random_crop(self, images: torch.Tensor) -> torch.Tensor:
        shift = torch.randint(-self.workload.crop, self.workload.crop + 1, (2, len(images)), device=self.device)
        return Augment(shift[0], shift[1], torch.zeros_like(shift[0])).apply(images)

    def best_threads(self, one_round: Callable[[], None], seconds: float) -> int:
        """One thread or all of them, whichever is faster: small steps such as softmax's need one."""
        threads = torch.get_num_threads()
        rates = {}
        for count in {1, threads}:
            torch.set_num_threads(count)
            rates[count] = self.rate(one_round, seconds)
        torch.set_num_threads(threads)
        return max(rates, key=lambda count: rates[count])

    def rate(self, one_round: Callable[[], None], seconds: float) -> float:
        """Client-steps per second, measured over about `seconds`."""
        self._wait()
        began, rounds = time.perf_counter(), 0
        while rounds == 0 or time.perf_counter() - began < seconds:
            one_round()
            rounds += 1
            if rounds % 4 == 0:
                self._wait()  # do not queue more GPU work than the clock has measured
        self._wait()
        return rounds * self.workload.client_steps / (time.perf_counter() - began)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def peak_memory_gb(self) -> float:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated() / 2**30
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def ceiling(device: str, precision: Precision) -> float:
    """TFLOP/s of large square matrix products in that precision, measured now."""
    cuda = device.startswith("cuda")
    size = 8192 if cuda else 2048
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    rates = []
    for _ in range(4):
        began = time.perf_counter()
        for _ in range(10 if cuda else 1):
            a @ b
        if cuda:
            torch.cuda.synchronize()
        rates.append((10 if cuda else 1) * 2 * size**3 / (time.perf_counter() - began) / 1e12)
    torch.backends.cuda.matmul.allow_tf32 = allowed
    return max(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=["cnn", "softmax"], default=["cnn", "softmax"])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:NUMBER")
    parser.add_argument("--precision", choices=get_args(Precision), help="default: fp32 on a CPU, bf16 on a GPU")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="about how long each of the two is measured")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args()
    cuda = args.device.startswith("cuda")
    # A GPU needs more clients at once than a CPU to be fully used.
    known = {"cnn": [cnn(n) for n in ((35, 64, 128, 256) if cuda else (10,))], "softmax": [softmax()]}
    precision = args.precision or ("bf16" if cuda else "fp32")
    chosen = [workload for name in args.workloads for workload in known[name]]
    results = [measure(w, args.device, precision, args.repetitions, args.seconds) for w in chosen]
    if args.json:
        print(json.dumps([{"peer": "fedswe", **asdict(result)} for result in results]))
        return
    print(f"{results[0].device}, {precision}; client-steps per second")
    for r in results:
        print(
            f"{r.workload}, {r.per_round} clients at once: fedswe {r.client_steps_per_s:,.0f} ({r.threads} threads), "
            f"plain loop {r.plain_steps_per_s:,.0f} ({r.plain_threads}), ratio {r.ratio:.1f}; {r.tflops:.3g} TFLOP/s, "
            f"{100 * r.share_of_ceiling:.0f} % of large matrix products; peak {r.peak_memory_gb:.2f} GB"
        )


if __name__ == "__main__":
    main()
