"""Checks of a user's model, loss and samples when a task is built: a mistake gets one line that names the client."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch.func import grad, vmap

from fedswe.core.records import Vector
from fedswe.errors import FedsweError, first_line, require, warn
from fedswe.tasks.client_samples import Samples, refuse_labels
from fedswe.tasks.data_set import MOST_CLASSES
from fedswe.tasks.losses import Objective
from fedswe.tasks.network import KeyedDropout, Network

_FEW = 4  # samples that a model is tried on
_SHOWN = 80  # characters of a reason that torch gives


def check(
    network: Network,
    objective: Objective,
    x: Vector,
    train: Samples,
    whose: Callable[[int], str],
    test: Samples | None = None,
) -> int:
    """Refuse a model that cannot be trained on the samples; `whose` says whose a training sample is.

    The number that labels must be less than; 0: the targets are no labels.
    """
    classes = _check_fit(network, objective, x, train, whose)
    _probe(network, objective, x, train)
    if test is not None and len(test[1]):
        _check_fit(network, objective, x, test, lambda sample: "the test set")
    return classes


def _check_fit(network: Network, objective: Objective, x: Vector, samples: Samples, whose: Callable[[int], str]) -> int:
    """Refuse a model that does not accept the inputs, and a loss that does not accept its outputs."""
    inputs, targets = (values[:_FEW] for values in samples)
    where, classes = whose(0), 0
    shown = f"inputs of shape {list(inputs.shape)} ({_kind(inputs)})"
    tokens = "; integers stay integers: convert them with .float() unless they are tokens"
    hint = "" if inputs.is_floating_point() else tokens
    with torch.no_grad():
        outputs = _tried(lambda: network.logits(x, inputs), f"{where}: the model does not accept {shown}", hint)
    if not isinstance(outputs, torch.Tensor):
        raise FedsweError(f"{where}: the model must return one tensor, not {type(outputs).__name__}")
    require(
        outputs.ndim and len(outputs) == len(inputs),
        f"{where}: the model gives outputs of shape {list(outputs.shape)} for {len(inputs)} samples",
    )
    both = f"outputs of shape {list(outputs.shape)} and targets of shape {list(targets.shape)} ({_kind(targets)})"
    require(
        not objective.cross_entropy
        or (not targets.is_floating_point() and outputs.ndim > 1 and outputs.shape[2:] == targets.shape[1:]),
        f"{where}: the cross-entropy needs outputs [samples, classes, ...] and integer labels [samples, ...], not "
        + both,
    )
    if objective.labels(targets):
        several = outputs.ndim > 1 and (objective.cross_entropy or outputs.shape[1] > 1)
        classes = outputs.shape[1] if several else MOST_CLASSES
        refuse_labels(samples[1], classes, whose)
    leaf = outputs.detach().requires_grad_()
    column = outputs.shape == (*targets.shape, 1)
    hint = f": give targets of shape [N, {', '.join(map(str, outputs.shape[1:]))}]" if column else ""
    losses = _tried(lambda: objective.loss(leaf, targets), f"{where}: the loss does not accept {both}", hint)
    if not isinstance(losses, torch.Tensor) or losses.shape != (len(inputs),):
        found = f"shape {list(losses.shape)}" if isinstance(losses, torch.Tensor) else type(losses).__name__
        raise FedsweError(
            f"{where}: the loss must give one number per sample, [{len(inputs)}], not {found}: do not average over the "
            'batch (reduction="none")'
        )
    _check_alone(objective, leaf, targets, losses.detach(), f"{where}: {both}")
    require(losses.requires_grad, f"{where}: the loss does not depend on the outputs of the model")
    require(bool(torch.isfinite(losses).all()), f"{where}: the loss of the initial model is NaN or infinite")
    for name, metric in objective.metrics.items():
        with torch.no_grad():
            value = _tried(
                lambda: torch.as_tensor(metric(outputs, targets)),  # noqa: B023
                f"{where}: the metric {name} does not accept {both}",
            )
        assert isinstance(value, torch.Tensor)
        require(
            value.ndim == 0 or (value.shape[0] == len(inputs) and value.numel() == len(inputs)),
            f"{where}: the metric {name} must give one number, or one per sample, not shape {list(value.shape)}",
        )
    return classes


def _check_alone(
    objective: Objective, outputs: torch.Tensor, targets: torch.Tensor, losses: torch.Tensor, where: str
) -> None:
    """Refuse a loss of a sample that depends on the other samples: shapes that do not fit are broadcast."""
    try:
        alone = torch.cat([objective.loss(outputs[i : i + 1], targets[i : i + 1]) for i in range(len(targets))])
    except Exception:  # a loss may need more than one sample
        return
    require(
        torch.allclose(alone.detach(), losses, rtol=1e-3, atol=1e-5),
        f"{where}: the loss of a sample depends on the other samples: give outputs and targets the same shape",
    )


def _tried(compute: Callable[[], object], problem: str, hint: str = "") -> object:
    try:
        with warnings.catch_warnings():
            # torch only warns of targets [N] for outputs [N, 1], which would be broadcast to [N, N]
            warnings.filterwarnings("error", message=r"Using a target size")
            return compute()
    except FedsweError:
        raise
    except Exception as error:  # of a user's model or loss
        reason = "the shapes differ" if isinstance(error, UserWarning) else first_line(error)
        raise FedsweError(f"{problem} ({reason}){hint}") from None


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
    try:
        first, calls = outputs(inputs, 0)
        second, _ = outputs(inputs, 1)
    except Exception as error:
        raise FedsweError(f"the model cannot be trained on {len(inputs)} samples ({first_line(error)})") from None
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

    def loss(x: Vector, inputs: torch.Tensor, targets: torch.Tensor, bits: torch.Tensor | None) -> torch.Tensor:
        return objective.loss(network.training_logits(x, inputs, bits), targets).mean()

    drop = bits if network.drops else None
    try:
        two = (torch.stack([x, 0.5 * x]), torch.stack([inputs, inputs]), torch.stack([targets, targets]))
        both = None if drop is None else torch.stack([drop, drop])
        stacked = vmap(grad(loss), in_dims=(0, 0, 0, None if drop is None else 0))(*two, both)
        network.vmaps = torch.allclose(stacked[0], grad(loss)(x, inputs, targets, drop), rtol=1e-2, atol=1e-4)
        reason = "its stacked gradients differ"
    except Exception as error:
        network.vmaps, reason = False, first_line(error)
    if not network.vmaps:
        warn(f"clients are trained one at a time, which is slower: torch cannot stack this model ({reason[:_SHOWN]})")


def _kind(values: torch.Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
