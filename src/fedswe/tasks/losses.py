"""Losses of each sample, and the metrics that models are scored by, from what users have: names, functions, modules."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional as F

from fedswe.errors import FedsweError, require, suggestion

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of outputs [B, ...] and targets [B, ...]

LOSSES: dict[str, Function] = {
    "cross_entropy": F.cross_entropy,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "huber": F.huber_loss,
    "bce": F.binary_cross_entropy_with_logits,
}
_OF_NUMBERS = ("mse", "l1", "huber")
_QUANTITIES = (nn.MSELoss, nn.L1Loss, nn.HuberLoss, nn.SmoothL1Loss)


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimised, and what models are scored by."""

    loss: Function = F.cross_entropy  # of each sample, [B]
    regression: bool = False  # whether targets are quantities, even if they are integers
    metrics: Mapping[str, Function] = field(default_factory=dict)
    cross_entropy: bool = True  # the plain one, whose gradient is known in closed form

    @classmethod
    def of(cls, loss: str | Function, metrics: Sequence[str] | Mapping[str, Function] | None = None) -> Objective:
        """From what a user gives; by default the cross-entropy comes with the accuracy."""
        plain = loss in ("cross_entropy", F.cross_entropy)
        if isinstance(loss, nn.CrossEntropyLoss):
            plain = loss.weight is None and loss.ignore_index == -100 and loss.label_smoothing == 0
        regression = isinstance(loss, _QUANTITIES) or loss in (*_OF_NUMBERS, *(LOSSES[name] for name in _OF_NUMBERS))
        named = metrics_named((["accuracy"] if plain else []) if metrics is None else metrics)
        return cls(per_sample(loss), regression, named, plain)

    def labels(self, targets: torch.Tensor) -> bool:
        """Whether targets are the numbers of classes."""
        return not targets.is_floating_point() and (self.cross_entropy or (targets.ndim == 1 and not self.regression))

    def total(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The sum of the losses of all samples."""
        if self.cross_entropy and targets.ndim == 1:
            return F.cross_entropy(outputs, targets, reduction="sum")
        return self.loss(outputs, targets).double().sum()

    def gradient(self, outputs: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The gradients [n, units, B] of n clients' weighted losses; targets are [n, B, ...], weights [n, B]."""
        if self.cross_entropy and targets.ndim == 2:
            g = F.softmax(outputs, dim=1)
            g.scatter_add_(1, targets.unsqueeze(1), -torch.ones_like(g[:, :1]))
            g *= weight.unsqueeze(1)
            return g
        with torch.enable_grad():
            leaf = outputs.detach().transpose(1, 2).requires_grad_()
            losses = self.loss(leaf.flatten(0, 1), targets.flatten(0, 1))
            return torch.autograd.grad((losses * weight.flatten()).sum(), leaf)[0].transpose(1, 2)


def per_sample(loss: str | Function) -> Function:
    """The loss of each sample, [B]. torch's losses average over the batch by default; here they do not."""
    if isinstance(loss, str):
        require(loss in LOSSES, f"unknown loss {loss!r}: {suggestion(loss, list(LOSSES))}, or give a function")
        if loss != "cross_entropy":  # integers are accepted as quantities
            return partial(_of_numbers, per_sample(LOSSES[loss]))
        loss = LOSSES[loss]
    require(callable(loss), f"loss must be a name, a function or a module, not {loss!r}")
    if isinstance(loss, nn.Module) and hasattr(loss, "reduction"):
        module = copy.deepcopy(loss)
        vars(module)["reduction"] = "none"
        return partial(_averaged, module)
    with suppress(TypeError, ValueError):  # some built-in functions have no signature
        if not isinstance(loss, nn.Module) and "reduction" in inspect.signature(loss).parameters:
            return partial(_averaged, partial(cast(Callable[..., torch.Tensor], loss), reduction="none"))
    return partial(_averaged, loss)


def _averaged(loss: Function, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean over the numbers of a sample, where a loss gives one for each of them."""
    return _of_samples(loss(outputs, targets))


def _of_samples(values: torch.Tensor) -> torch.Tensor:
    return values.flatten(1).mean(1) if values.ndim > 1 else values


def _of_numbers(loss: Function, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return loss(outputs, targets.to(outputs.dtype))


# metrics -----------------------------------------------------------------------------------------------------
def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The share of correct classes of each sample; a single output is the logit of class 1."""
    single = outputs.shape == targets.shape
    fit = single or (outputs.ndim > 1 and outputs.shape[1] > 1 and outputs[:, 0].shape == targets.shape)
    require(fit, f"accuracy: {_differ(outputs, targets)}")
    require(
        not single or bool(((targets == 0) | (targets == 1)).all()),
        "accuracy: with one output per target, targets must be 0 or 1; use mae, rmse or r2 for quantities",
    )
    right = (outputs > 0) == (targets > 0.5) if single else outputs.argmax(1) == targets
    return _of_samples(right.double())


def mae(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return _of_samples(_error(outputs, targets).abs())


def rmse(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return _error(outputs, targets).square().mean().sqrt()


def r2(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The coefficient of determination."""
    return 1 - _error(outputs, targets).square().sum() / (targets - targets.mean(0)).square().sum()


def _error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The difference; other shapes would be broadcast."""
    require(outputs.shape == targets.shape, _differ(outputs, targets))
    return outputs - targets


def _differ(outputs: torch.Tensor, targets: torch.Tensor) -> str:
    return f"outputs of shape {list(outputs.shape)} do not fit targets of shape {list(targets.shape)}: reshape them"


METRICS: dict[str, Function] = {"accuracy": accuracy, "mae": mae, "rmse": rmse, "r2": r2}


def metrics_named(given: Sequence[Any] | Mapping[str, Any]) -> dict[str, Function]:
    """Metrics by name: a list of names of METRICS and of mappings, or a mapping of names to functions or such names.

    A function gives one number per sample, which is averaged, or one number for all samples together.
    """
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        raise FedsweError(f"metrics must be a list of names or a dict of functions: write [{given!r}]")
    entries = [given] if isinstance(given, Mapping) else given
    found = {}
    for name, function in (item for e in entries for item in (e if isinstance(e, Mapping) else {str(e): e}).items()):
        usable = isinstance(name, str) and name.isidentifier() and name != "loss"
        require(usable, f"metrics: {name!r} cannot be the name of a column: use letters, digits and _, and not loss")
        known = f"unknown metric {function!r}: {suggestion(str(function), list(METRICS))}, or give a function"
        require(not isinstance(function, str) or function in METRICS, known)
        found[name] = METRICS[function] if isinstance(function, str) else function
        require(callable(found[name]), f"metrics: {name} must be a function of outputs and targets, not {function!r}")
    return found
