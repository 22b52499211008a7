"""Checks of a user's model, loss and samples when a task is built: a mistake gets one line that names the client."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress

import torch
from torch.func import grad, vmap

from fedswe.core.records import Vector
from fedswe.errors import first_line, mistakes_as, require, warn
from fedswe.tasks.client_samples import Samples, Whose, refuse_labels
from fedswe.tasks.data_set import MOST_CLASSES
from fedswe.tasks.losses import Objective
from fedswe.tasks.network import KeyedDropout, Network

_FEW = 4  # samples that a model is tried on
_SHOWN = 80  # characters of a reason that torch gives


def check(
    network: Network, objective: Objective, x: Vector, train: Samples, whose: Whose, test: Samples | None = None
) -> int:
    """Refuse a model that cannot be trained on the samples; `whose` says whose a training sample is.

    The number that labels must be less than; 0: the targets are no labels.
    """
    with warnings.catch_warnings():
        # torch only warns of targets [N] for outputs [N, 1], which would be broadcast to [N, N]
        warnings.filterwarnings("error", message=r"Using a target size")
        classes = _check_fit(network, objective, x, train, whose)
        _probe(network, objective, x, train)
        if test is not None and len(test[1]):
            _check_fit(network, objective, x, test, lambda sample: "the test set")
    return classes


def _check_fit(network: Network, objective: Objective, x: Vector, samples: Samples, whose: Whose) -> int:
    """Refuse a model that does not accept the inputs, and a loss that does not accept its outputs."""
    inputs, targets = (values[:_FEW] for values in samples)
    where, n, classes = whose(0), len(inputs), 0
    tokens = "; integers stay integers: convert them with .float() unless they are tokens"
    hint = "" if inputs.is_floating_point() else tokens
    with torch.no_grad(), mistakes_as(f"{where}: the model does not accept inputs of {_form(inputs)}", hint):
        outputs = network.logits(x, inputs)
    require(
        isinstance(outputs, torch.Tensor) and outputs.ndim and len(outputs) == n,
        f"{where}: the model must return one tensor, with a row for each of {n} samples, not {_form(outputs)}",
    )
    both = f"outputs of {_form(outputs)} and targets of {_form(targets)}"
    fit = not targets.is_floating_point() and outputs.ndim > 1 and outputs.shape[2:] == targets.shape[1:]
    wanted = "outputs [N, classes, ...] and integer labels [N, ...]"
    require(fit or not objective.cross_entropy, f"{where}: the cross-entropy needs {wanted}, not {both}")
    if objective.labels(targets):
        several = outputs.ndim > 1 and (objective.cross_entropy or outputs.shape[1] > 1)
        classes = outputs.shape[1] if several else MOST_CLASSES
        refuse_labels(samples[1], classes, whose)
    leaf = outputs.detach().requires_grad_()
    column = outputs.shape == (*targets.shape, 1)
    hint = f": give targets of shape [N, {', '.join(map(str, outputs.shape[1:]))}]" if column else ""
    with mistakes_as(f"{where}: the loss does not accept {both}", hint):
        losses = objective.loss(leaf, targets)
    require(
        isinstance(losses, torch.Tensor) and losses.shape == (n,),
        f"{where}: the loss must give one number per sample, [{n}], not {_form(losses)}: do not average over the "
        'batch (reduction="none")',
    )
    alone = losses
    with suppress(Exception):  # a loss may need more than one sample
        alone = torch.cat([objective.loss(leaf[i : i + 1], targets[i : i + 1]) for i in range(n)])
    require(
        torch.allclose(alone.detach(), losses.detach(), rtol=1e-3, atol=1e-5, equal_nan=True),
        f"{where}: {both}: the loss of a sample depends on the other samples: give outputs and targets the same shape",
    )
    require(losses.requires_grad, f"{where}: the loss does not depend on the outputs of the model")
    require(bool(torch.isfinite(losses).all()), f"{where}: the loss of the initial model is NaN or infinite")
    for name, metric in objective.metrics.items():
        with torch.no_grad(), mistakes_as(f"{where}: the metric {name} does not accept {both}"):
            shape = list(torch.as_tensor(metric(outputs, targets)).shape)
        fit = not shape or shape[0] == math.prod(shape) == n
        require(fit, f"{where}: the metric {name} must give one number, or one per sample, not shape {shape}")
    return classes


def _probe(network: Network, objective: Objective, x: Vector, samples: Samples) -> None:
    """Find out by trying what a network does in training: dropout, mixing of samples, stacking."""
    inputs, targets = (values[:_FEW] for values in samples)
    bits = torch.zeros((), dtype=torch.int64, device=x.device)

    def outputs(values: torch.Tensor, seed: int) -> tuple[torch.Tensor, int]:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), KeyedDropout(bits) as context:
            torch.manual_seed(seed)
            return network.trained(x, values), context.calls

    before = {name: value.clone() for name, value in network.training_module.named_buffers()}
    known = len(inputs) > 1
    if not known:  # too few for BatchNorm
        inputs, targets = torch.cat([inputs] * 2), torch.cat([targets] * 2)
    with mistakes_as(f"the model cannot be trained on {len(inputs)} samples"):
        first, calls = outputs(inputs, 0)
        second, _ = outputs(inputs, 1)
    network.drops = calls > 0
    require(
        torch.equal(first, second),
        "the model draws random numbers of its own in training: use torch's Dropout layers, which are repeatable, and "
        "dropout=0 in recurrent layers",
    )
    for name, value in network.training_module.named_buffers():
        require(
            torch.equal(value, before[name]),
            f"the model changes its buffer {name} in training, which averaging does not define: use a layer without it",
        )
    try:
        alone, _ = outputs(inputs[:1], 0)
        # Where there is only one sample it cannot be told, and is assumed.
        network.mixes_samples |= not known or not torch.allclose(alone, first[:1], rtol=1e-3, atol=1e-5)
    except Exception:  # BatchNorm has no variance of one sample
        network.least_samples, network.mixes_samples = 2, True
    if network.stacks and (network.flattens or inputs.ndim == 2):
        return

    drop = bits if network.drops else None

    def loss(x: Vector, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return objective.loss(network.training_logits(x, inputs, drop), targets).mean()

    try:
        stacked = vmap(grad(loss))(*(torch.stack([part, part]) for part in (x, inputs, targets)))
        network.vmaps = torch.allclose(stacked[0], grad(loss)(x, inputs, targets), rtol=1e-2, atol=1e-4)
        reason = "its stacked gradients differ"
    except Exception as error:
        network.vmaps, reason = False, first_line(error)
    if not network.vmaps:
        warn(f"clients are trained one at a time, which is slower: torch cannot stack this model ({reason[:_SHOWN]})")


def _form(values: object) -> str:
    if not isinstance(values, torch.Tensor):
        return type(values).__name__
    return f"shape {list(values.shape)} ({str(values.dtype).removeprefix('torch.')})"
