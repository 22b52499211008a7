"""Counter-based randomness: every draw is a function of its name (seed, stream, counters).

No generator state is kept, so a draw does not depend on which other draws were made or in which order: all
algorithms see the same available clients, a resumed run needs no random state, and a GPU gives the same bits as a CPU
(integer arithmetic only).

torch is imported when something is drawn: availability models and tasks are values that are listed and configured
without it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

    Counter = int | npt.NDArray[np.int64] | torch.Tensor

# SplitMix64's increment and the multipliers of its finaliser (Steele, Lea, Flood 2014), as signed 64-bit integers.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MUL_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MUL_2 = 0x94D049BB133111EB - (1 << 64)

# The same, unsigned, for numpy
_GOLDEN_UNSIGNED, _LAST = np.uint64(_GOLDEN + (1 << 64)), np.uint64(31)
_ROUNDS = ((np.uint64(30), np.uint64(_MUL_1 + (1 << 64))), (np.uint64(27), np.uint64(_MUL_2 + (1 << 64))))


def _xor_shift(z: torch.Tensor, by: int) -> torch.Tensor:
    # torch shifts signed integers arithmetically; the mask makes it the logical shift SplitMix64 needs.
    return z ^ ((z >> by) & ((1 << (64 - by)) - 1))


def _mix(z: torch.Tensor) -> torch.Tensor:
    z = _xor_shift(z, 30) * _MUL_1
    z = _xor_shift(z, 27) * _MUL_2
    return _xor_shift(z, 31)


def stream_key(seed: int, stream: str) -> int:
    """A 63-bit number naming one stream of one seed."""
    digest = hashlib.sha256(f"{seed}/{stream}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def bits(seed: int, stream: str, *counters: Counter) -> torch.Tensor:
    """64 random bits for each combination of the counters, which broadcast against each other."""
    import torch

    key = stream_key(seed, stream)
    devices = [c.device for c in counters if isinstance(c, torch.Tensor)]
    if all(device.type == "cpu" for device in devices):
        return torch.from_numpy(_extended(np.array(key), counters))
    return extend(torch.tensor(key, dtype=torch.int64, device=devices[0]), *counters)


def extend(h: torch.Tensor, *counters: Counter) -> torch.Tensor:
    """Add counters to the name of a draw: extend(bits(seed, stream, a), b) = bits(seed, stream, a, b)."""
    import torch

    for counter in counters:
        # A Python number is passed to the kernel directly; as a tensor it would first be copied to the device.
        c = counter if isinstance(counter, int) else torch.as_tensor(counter, dtype=torch.int64, device=h.device)
        h = _mix(_mix(h ^ c) + _GOLDEN)
    return h


def _extended(h: npt.NDArray[np.int64], counters: Sequence[Counter]) -> npt.NDArray[np.int64]:
    """`extend` in numpy, which takes half the time: its calls cost less, and it can work in place."""
    z = np.atleast_1d(h).view(np.uint64)  # numpy warns of wrap-around in scalars
    for counter in counters:
        z = z ^ np.asarray(counter, dtype=np.int64).view(np.uint64)
        spare = np.empty_like(z)
        _mix_in_place(z, spare)
        z += _GOLDEN_UNSIGNED
        _mix_in_place(z, spare)
    return z.view(np.int64).reshape(np.broadcast_shapes(h.shape, *(np.shape(c) for c in counters)))


def _mix_in_place(z: npt.NDArray[np.uint64], spare: npt.NDArray[np.uint64]) -> None:
    for by, factor in _ROUNDS:
        np.right_shift(z, by, out=spare)
        np.bitwise_xor(z, spare, out=z)
        np.multiply(z, factor, out=z)
    np.right_shift(z, _LAST, out=spare)
    np.bitwise_xor(z, spare, out=z)


def grid(names: torch.Tensor, a: int, b: int) -> torch.Tensor:
    """Random bits for all (i, j, k): extend(names[i], j, k), [n, a, b]."""
    if names.device.type == "cuda":
        from fedswe.core import keys_cuda  # needs Triton, which comes with torch for CUDA

        return keys_cuda.grid(names, a, b)
    import torch

    return torch.from_numpy(_extended(names.numpy()[:, None, None], (np.arange(a)[:, None], np.arange(b))))


def uniform(seed: int, stream: str, *counters: Counter) -> torch.Tensor:
    """Float64 in [0, 1) with 53 random bits."""
    return fraction(bits(seed, stream, *counters))


def fraction(h: torch.Tensor) -> torch.Tensor:
    """Random bits as a float64 in [0, 1)."""
    return ((h >> 11) & ((1 << 53) - 1)).double() * 2.0**-53


def normal(seed: int, stream: str, *counters: Counter) -> torch.Tensor:
    """Standard normal float64, by Box and Muller."""
    u = 1.0 - uniform(seed, stream + "/radius", *counters)  # in (0, 1]
    v = uniform(seed, stream + "/angle", *counters)
    return (-2.0 * u.log()).sqrt() * (2.0 * math.pi * v).cos()


def generator(seed: int, stream: str) -> np.random.Generator:
    """A numpy generator for draws made once, before the first round (partition, label weights)."""
    return np.random.default_rng(stream_key(seed, stream))
