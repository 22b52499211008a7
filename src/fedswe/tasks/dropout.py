"""Dropout whose masks are functions of client, round, step, layer, sample and unit.

torch's own masks come from a global generator: they would depend on which other clients were trained before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from fedswe.core import keys

_ATTENTION = F.scaled_dot_product_attention
_WHOLE_CHANNELS = (F.dropout1d, F.dropout2d, F.dropout3d)


def kept(dropout: torch.Tensor, layer: int, samples: int, units: int, p: float) -> torch.Tensor:
    """1/(1 - p) for units that stay, 0 for those left out, [samples, units]."""
    sample = torch.arange(samples, device=dropout.device)[:, None]
    unit = torch.arange(units, device=dropout.device)
    return (keys.fraction(keys.extend(dropout, layer, sample, unit)) >= p) / (1.0 - p)


class KeyedDropout(TorchFunctionMode):
    """Within this context every dropout of a network uses masks named by `bits` and the number of the call.

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
            own: dict[str, Any] = {
                "dropout": partial(self._dropout, False),
                "scaled_dot_product_attention": self._attention,
            }
            with patch.multiple(F, **own):
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
