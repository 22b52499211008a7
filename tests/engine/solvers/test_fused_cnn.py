"""The fused GPU path: exact on a CPU through Triton's interpreter, and on the GPU itself where there is one."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fedswe.tasks.network import Network
from fedswe.tasks.networks import NETWORKS

ROOT = Path(__file__).parents[3]
triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU; last measured result in benchmarks/")


def found_by(module, *arguments, **environment):
    """What a module of these tests prints, as JSON."""
    command, env = [sys.executable, "-m", f"tests.engine.solvers.{module}", *arguments], {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def errors(device, cases, **environment):
    return found_by("fused_reference", device, json.dumps(cases), **environment)


SVHN, CIFAR10, CINIC10 = ([128, 10], 0.0), ([256, 64, 10], 0.0), ([512, 256, 10], 0.2)


@triton
@pytest.mark.parametrize(
    "cases",
    [
        [[*SVHN, 2, 16, "fp32", False, 0.0], [*CIFAR10, 1, 16, "fp32", True, 0.05]],
        [[*CINIC10, 1, 16, "fp32", True, 0.5], [[64, 1024, 7], 0.5, 2, 32, "fp32", False, 0.0]],
    ],
    ids=["plain", "dropout"],
)
def test_kernels_equal_autograd_in_the_interpreter(cases):
    """float32 arithmetic: an index wrong anywhere, or another unit left out, would be an error of order one."""
    assert max(errors("cpu", cases, TRITON_INTERPRET="1")) < 1e-4


@triton
def test_a_company_in_chunks_equals_the_plain_steps_in_the_interpreter():
    """Batches, dropout, crops beyond the border and rates reach the clients they belong to."""
    found = found_by("fused_stack", TRITON_INTERPRET="1")
    assert found["error"] < 1e-4
    assert found["mixed"] > 0.1


@triton
def test_logits_equal_the_networks_own_in_the_interpreter():
    """In units of their spread; any number of images, whatever was scored before."""
    assert found_by("fused_scores", "cpu", TRITON_INTERPRET="1") < 1e-4


@gpu
def test_logits_equal_the_networks_own_on_the_gpu():
    assert found_by("fused_scores", "cuda") < 2e-2


@triton
def test_keyed_bits_equal_the_reference_in_the_interpreter():
    code = (
        "import torch; from fedswe.core import keys, keys_cuda; names = keys.bits(3, 'x', torch.arange(5), 7); "
        "print(torch.equal(keys_cuda.grid(names, 3, 40), keys.grid(names, 3, 40)))"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "True", done.stderr[-2000:]


@gpu
@pytest.mark.parametrize(
    ("precision", "networks", "tolerance"),
    [
        ("tf32", [(SVHN, 5, 128), (CIFAR10, 1, 32)], 6e-2),
        ("tf32", [(CINIC10, 3, 128)], 1.2e-1),
        ("bf16", [(SVHN, 5, 128), (CIFAR10, 1, 32), (CINIC10, 3, 128)], 2e-1),
    ],
)
def test_kernels_equal_autograd_on_the_gpu(precision, networks, tolerance):
    """Rounding flips some winners of the pooling, which shows most in the first layer; a wrong index would give 1.

    Autograd in float64 whose products take operands rounded to tf32 has up to 8.2e-2 on CINIC-10's network and
    4.6e-2 on SVHN's in twelve draws, most where a client has five samples: one winner is then much of the gradient.
    """
    cases = [
        [*network, clients, batch, precision, drifting, clip]
        for network, clients, batch in networks
        for drifting, clip in ((False, 0.0), (True, 0.05))
    ]
    assert max(errors("cuda", cases)) < tolerance


@gpu
@pytest.mark.parametrize(("widths", "dropout"), [SVHN, CINIC10])
def test_a_phase_gives_the_same_bits_twice(widths, dropout):
    from fedswe.engine.solvers.fused_cnn.cnn import FusedCnn

    images = torch.randn(1000, 3, 32, 32, device="cuda")
    cnn = FusedCnn(images, widths, 96, 128, 3, "bf16", dropout)
    cnn.phase.index.random_(0, 1000)
    cnn.phase.labels.random_(0, 10)
    cnn.phase.dropout.random_()
    cnn.phase.weight.fill_(1 / 128)
    cnn.phase.lr.fill_(0.05)
    start = 0.05 * torch.randn(96, cnn.d, device="cuda")
    ends = [cnn.run(start, None, False, 96).clone() for _ in range(20)]
    assert all(torch.equal(ends[0], end) for end in ends)


@triton
@pytest.mark.parametrize("name", ["svhn_cnn", "cifar10_cnn", "cinic10_cnn"])
def test_the_papers_networks_are_recognised(name):
    from fedswe.engine.solvers.fused_cnn.solver import dense_part

    module = Network(NETWORKS[name]((3, 32, 32), 10)).module
    expected = {"svhn_cnn": SVHN, "cifar10_cnn": CIFAR10, "cinic10_cnn": CINIC10}[name]
    assert dense_part(module) == (tuple(expected[0]), expected[1])


@triton
@pytest.mark.parametrize(
    "dense",
    [
        [nn.Dropout(0.2), nn.Linear(2048, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10)],  # two rates
        [nn.Linear(2048, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10)],  # not before every layer
        [nn.Dropout(1.0), nn.Linear(2048, 64), nn.ReLU(), nn.Dropout(1.0), nn.Linear(64, 10)],  # nothing is left
        [nn.Linear(2048, 48), nn.ReLU(), nn.Linear(48, 10)],  # not a power of two
        [nn.Linear(2048, 64), nn.Tanh(), nn.Linear(64, 10)],
        [nn.Linear(2048, 10)],
    ],
)
def test_other_networks_are_not(dense):
    from fedswe.engine.solvers.fused_cnn.solver import dense_part

    convolutions = list(NETWORKS["svhn_cnn"]((3, 32, 32), 10))[:7]
    assert dense_part(Network(nn.Sequential(*convolutions, *dense)).module) is None


@triton
def test_a_module_with_the_same_layers_and_a_forward_of_its_own_is_not():
    from fedswe.engine.solvers.fused_cnn.solver import dense_part

    class Halved(nn.Sequential):
        def forward(self, inputs):
            return super().forward(inputs) / 2

    layers = list(NETWORKS["svhn_cnn"]((3, 32, 32), 10))
    assert dense_part(Network(nn.Sequential(*layers)).module) is not None
    assert dense_part(Network(Halved(*layers)).module) is None
