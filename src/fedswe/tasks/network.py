"""A torch module whose trainable parameters are one flat vector x [d], for one client or for n."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter
from torch.overrides import TorchFunctionMode

from fedswe.core import keys
from fedswe.core.in_memory import digest
from fedswe.core.records import Vector
from fedswe.errors import mistakes_as, require

OutputGradient = Callable[[torch.Tensor], torch.Tensor]  # of n clients' weighted losses: [n, units, B] to the same
Statistics = dict[str, torch.Tensor]  # running means and variances of normalisation layers, by name

_ATTENTION = F.scaled_dot_product_attention
_WHOLE_CHANNELS = (F.dropout1d, F.dropout2d, F.dropout3d)


class Network:
    """Parameters that are frozen (requires_grad=False) and buffers are constants: neither trained nor sent.

    Normalisation layers with running statistics (BatchNorm) normalise by the batch in training. Their statistics are
    not trained and not sent either: an echo would multiply them. They are computed for a given model by `statistics`.
    """

    def __init__(self, module: nn.Module) -> None:
        named = dict(module.named_parameters())
        lazy = [name for name, p in named.items() if isinstance(p, UninitializedParameter)]
        require(not lazy, f"the model has lazy layers ({', '.join(lazy[:1])}): call it once on a sample first")
        self._shapes = {name: p.shape for name, p in named.items() if p.requires_grad}
        require(self._shapes, "the model has no parameters to train: set requires_grad=True on some of them")
        self.module = pooled_first(module).eval()
        self.normalising = [name for name, part in module.named_modules() if _has_live_statistics(part)]
        self.training_module = _for_training(self.module, self.normalising)
        self.drops = any(isinstance(layer, _DropoutNd) and layer.p for layer in module.modules())
        self.mixes_samples = bool(self.normalising)  # whether the output of a sample depends on the others of its batch
        self.least_samples = 1  # of a batch in training
        self.vmaps = True  # whether torch can train a stack of clients
        self._sizes = [shape.numel() for shape in self._shapes.values()]
        self.frozen = len(named) > len(self._shapes)
        self._aliases = _aliases(module)

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Place the constants; x comes with its own device and number format."""
        if self.frozen or any(True for _ in self.module.buffers()):
            for module in (self.module, self.training_module):
                module.to(device=device, dtype=dtype)

    @cached_property
    def signature(self) -> str:
        """Networks with one signature compute the same function of x."""
        blank = copy.deepcopy(self.module)
        for value in blank.parameters():
            if value.requires_grad:
                value.data.zero_()
        return digest(blank)

    def initial(self) -> Vector:
        """The module's own initialisation as a vector."""
        return torch.cat([p.detach().reshape(-1) for p in self.module.parameters() if p.requires_grad])

    def parameters_at(self, x: Vector) -> dict[str, torch.Tensor]:
        """x as the module's own named parameters."""
        pieces = torch.split(x, self._sizes)
        return {name: p.view(shape) for p, (name, shape) in zip(pieces, self._shapes.items(), strict=True)}

    def _values(self, x: Vector) -> dict[str, torch.Tensor]:
        """x by all names under which the module uses it."""
        values = self.parameters_at(x)
        return values | {alias: values[name] for alias, name in self._aliases.items()}

    def state_dict(self, x: Vector, statistics: Statistics | None = None) -> dict[str, torch.Tensor]:
        """All that the module needs to be used elsewhere: trained and frozen parameters, and buffers."""
        whole = copy.deepcopy(self.module).to(device=x.device, dtype=x.dtype)
        held = dict([*whole.named_parameters(), *whole.named_buffers()])  # load_state_dict may be the user's, or rename
        with torch.no_grad():
            for name, value in {**self.parameters_at(x), **(statistics or {})}.items():
                held[name].copy_(value)
        return {name: value.clone() for name, value in whole.state_dict().items()}

    # outputs -------------------------------------------------------------------------------------------
    def logits(self, x: Vector, inputs: torch.Tensor, statistics: Statistics | None = None) -> torch.Tensor:
        """The outputs [B, ...] of a model [d] on inputs [B, ...], as it is used: without dropout."""
        values = {**self._values(x), **(statistics or {})}
        return cast(torch.Tensor, functional_call(self.module, values, (inputs,), tie_weights=False))

    def training_logits(self, x: Vector, inputs: torch.Tensor, dropout: torch.Tensor | None) -> torch.Tensor:
        """The outputs in training; `dropout` is random bits that name the units to leave out; None: none of them."""
        with KeyedDropout(dropout) if self.drops else nullcontext():
            return self.trained(x, inputs)

    def trained(self, x: Vector, inputs: torch.Tensor) -> torch.Tensor:
        """The outputs in training, with dropout as torch draws it."""
        return cast(torch.Tensor, functional_call(self.training_module, self._values(x), (inputs,), tie_weights=False))

    def statistics(self, x: Vector, batches: list[torch.Tensor]) -> Statistics:
        """The running statistics of a model: cumulative means over batches of inputs (as torch's `update_bn` does)."""
        module = copy.deepcopy(self.module)
        layers = {name: cast(_NormBase, module.get_submodule(name)) for name in self.normalising}
        for layer in layers.values():
            layer.train()
            layer.reset_running_stats()
        values = self._values(x)
        with torch.no_grad():
            for number, inputs in enumerate(batches, 1):
                for layer in layers.values():
                    layer.momentum = 1 / number  # the mean over all batches
                functional_call(module, values, (inputs,), tie_weights=False)
        return {f"{n}.{key}": value for n, layer in layers.items() for key, value in layer.named_buffers(recurse=False)}

    # stacks of dense networks --------------------------------------------------------------------------
    @property
    def stacks(self) -> bool:
        """Whether `stacked_gradients` knows this network: Linear layers with ReLU or tanh between them."""
        if type(self.module) is not nn.Sequential or self.frozen or self._aliases:
            return False
        layers = list(self.module)[1 if self.flattens else 0 :]
        dense, between = layers[::2], layers[1::2]
        linear = all(type(layer) is nn.Linear and layer.bias is not None for layer in dense)
        return linear and len(layers) % 2 == 1 and all(type(layer) in (nn.ReLU, nn.Tanh) for layer in between)

    @property
    def flattens(self) -> bool:
        """Whether the first layer makes one row of each sample."""
        first = next(iter(self.module.children()), None)
        return isinstance(first, nn.Flatten) and (first.start_dim, first.end_dim) == (1, -1)

    def stacked_gradients(self, x: Vector, inputs: torch.Tensor, output_gradient: OutputGradient) -> Vector:
        """The gradients [n, d] of n clients' losses at x [n, d] on inputs [n, B, ...].

        Written out because autograd would transpose the wrong way: with units along rows, [n, units, B], the gradient
        of a weight is a product of rows (five times faster on a CPU than the product of columns).
        """
        assert isinstance(self.module, nn.Sequential)
        parts = zip(torch.split(x, self._sizes, dim=1), self._shapes.values(), strict=True)
        pieces = [part.view(len(x), *shape) for part, shape in parts]
        layers = list(zip(pieces[::2], pieces[1::2], strict=True))  # (weight, bias) of each dense layer
        tanh = [type(layer) is nn.Tanh for layer in self.module if type(layer) in (nn.ReLU, nn.Tanh)]
        before = [inputs.flatten(2).transpose(1, 2)]
        for number, (w, b) in enumerate(layers):
            h = (w @ before[-1]).to(x.dtype) + b.unsqueeze(2)
            if number < len(tanh):
                h = torch.tanh(h) if tanh[number] else F.relu(h)
            before.append(h)
        g = output_gradient(before[-1])
        gradients: list[torch.Tensor] = []
        for number in reversed(range(len(layers))):
            h = before[number]
            gradients[:0] = [(g @ h.transpose(1, 2)).to(x.dtype).flatten(1), g.sum(2)]
            if number:
                slope = 1 - h.square() if tanh[number - 1] else h > 0
                g = (layers[number][0].transpose(1, 2) @ g).to(x.dtype) * slope
        return torch.cat(gradients, dim=1)


def initial_network(make: Callable[[], Any], seed: int) -> Network:
    """The network of a function, with the initial parameters of a seed."""
    with torch.random.fork_rng(devices=[]), mistakes_as("the model cannot be made"):
        torch.manual_seed(keys.stream_key(seed, "initial model"))
        module = make()
    require(isinstance(module, nn.Module), f"the model must be a torch.nn.Module, not {type(module).__name__}")
    absent = [name for name, value in module.state_dict().items() if value.device.type == "meta"]
    require(not absent, f"the model has no numbers yet ({absent[:1]} is on the meta device): initialise it first")
    return Network(module)


def pooled_first(module: nn.Module) -> nn.Module:
    """The same function with each ReLU before a max-pooling moved behind it, where it has a quarter of the work."""
    if type(module) is not nn.Sequential:  # a subclass may do more than call its layers in turn
        return module
    layers = list(module)
    for i, (first, second) in enumerate(pairwise(layers)):
        if isinstance(first, nn.ReLU) and isinstance(second, nn.MaxPool2d):
            layers[i : i + 2] = [second, first]
    # Neither has parameters, so those of the other layers keep their names.
    return nn.Sequential(OrderedDict(zip(module._modules, layers, strict=True)))


def _aliases(module: nn.Module) -> dict[str, str]:
    """Other names of trained parameters that several layers share, and the names they were first found by.

    functional_call would find them itself, but it damages a module in which one layer has two names.
    """
    first = {id(value): name for name, value in module.named_parameters() if value.requires_grad}
    found = {}
    for path, layer in module.named_modules():  # each layer once
        for name, value in layer.named_parameters(path, recurse=False, remove_duplicate=False):
            if first.get(id(value), name) != name:
                found[name] = first[id(value)]
    return found


def _has_live_statistics(part: nn.Module) -> bool:
    """Whether a layer keeps running statistics; one whose parameters are frozen keeps those it has."""
    if not isinstance(part, _NormBase) or part.running_mean is None:
        return False
    own = list(part.parameters(recurse=False))
    return not own or any(p.requires_grad for p in own)


def _for_training(module: nn.Module, normalising: list[str]) -> nn.Module:
    """A copy in training mode; without running statistics torch normalises by the batch, and vmap can stack it."""
    copied = copy.deepcopy(module).train()
    for part in copied.modules():
        if isinstance(part, _NormBase) and part.running_mean is not None and not _has_live_statistics(part):
            part.eval()
    for name in normalising:
        layer = cast(_NormBase, copied.get_submodule(name))
        layer.running_mean = layer.running_var = layer.num_batches_tracked = None
    return copied


# dropout -----------------------------------------------------------------------------------------------------
def kept(dropout: torch.Tensor, layer: int, samples: int, units: int, p: float) -> torch.Tensor:
    """1/(1 - p) for units that stay, 0 for those left out, [samples, units]."""
    sample = torch.arange(samples, device=dropout.device)[:, None]
    unit = torch.arange(units, device=dropout.device)
    return (keys.fraction(keys.extend(dropout, layer, sample, unit)) >= p) / (1.0 - p)


class KeyedDropout(TorchFunctionMode):
    """Within this context every dropout of a network uses masks named by `bits` and the number of the call.

    The masks are functions of client, round, step, layer, sample and unit. torch's own come from a global generator:
    they would depend on which other clients were trained before.

    It replaces the functions that torch's layers call, so layers inside other modules, attention, and a `forward` that
    calls them itself are covered. `calls` counts the dropouts that were active.
    """

    def __init__(self, bits: torch.Tensor | None) -> None:
        """Without bits, nothing is left out."""
        super().__init__()
        self._bits, self.calls = bits, 0

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is F.dropout or function in _WHOLE_CHANNELS:
            return self._dropout(function in _WHOLE_CHANNELS, *args, **kwargs)
        if function is F.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        if function is F.multi_head_attention_forward:  # calls the others itself, where this context is not active
            with patch.multiple(F, dropout=partial(self._dropout, False), scaled_dot_product_attention=self._attention):
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    def _dropout(
        self, channels: bool, input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        if not training or not p or self._bits is None:
            return input
        if p == 1:
            return input * 0.0
        shape = input.shape[:2] if channels else input.shape
        mask = kept(self._bits, self.calls, shape[0], math.prod(shape[1:]), p).to(input.dtype)
        self.calls += 1
        return input * mask.view(*shape, *[1] * (input.ndim - len(shape)))

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **more: Any,
    ) -> torch.Tensor:
        if not dropout_p:
            return _ATTENTION(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **more)
        scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None:
            seen = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -math.inf) if seen else scores + attn_mask
        return self._dropout(False, scores.softmax(-1), dropout_p) @ value
