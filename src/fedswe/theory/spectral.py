"""Upper bounds on ρ_k: the paper's spectral lemma, as printed and as its proof supports it.

All bounds have the form 1 - gap. The gap of the block bound is far below the smallest double (about 1e-920 for
m = k = P = 100), so results carry log(gap) as well: ``bound`` then rounds to 1.
"""

import math
from dataclasses import dataclass

from fedswe.errors import require
from fedswe.theory.assumption import check_delta
from fedswe.theory.mixing import check_interpolation


@dataclass(frozen=True)
class SpectralBound:
    """ρ_k ≤ ``bound`` = 1 - exp(``log_gap``)."""

    bound: float
    log_gap: float


def _from_log_gap(log_gap: float) -> SpectralBound:
    return SpectralBound(-math.expm1(log_gap), log_gap)


def _log_gap(clients: int, k: float, delta: float, power: int) -> float:
    """log of [m²δ + k² + 2mk]² δ² / (8 (m+k)^power)."""
    require(clients >= 1, f"{clients} clients: give at least one")
    check_interpolation(clients, k)
    check_delta(delta)
    numerator = 2.0 * math.log(clients**2 * delta + k**2 + 2.0 * clients * k) + 2.0 * math.log(delta)
    return numerator - math.log(8.0) - power * math.log(clients + k)


def single_round_bound_printed(clients: int, k: float, delta: float) -> SpectralBound:
    """P = 1 as printed (eq. single spectral), with (m+k)² below: not a bound, it is negative for most m and k."""
    return _from_log_gap(_log_gap(clients, k, delta, power=2))


def single_round_bound(clients: int, k: float, delta: float) -> SpectralBound:
    """P = 1: ρ_k ≤ 1 - [m²δ + k² + 2mk]² δ² / (8(m+k)⁴), for every real k ≥ 0.

    Off-diagonal entries of E[W] are at least δ²/M between clients and δ/M towards virtual ones, hence the conductance
    Φ ≥ [m²δ + k² + 2mk] δ / (2(m+k)²), and Cheeger's inequality λ2 ≤ 1 - Φ²/2 squares the (m+k)².
    """
    return _from_log_gap(_log_gap(clients, k, delta, power=4))


def block_bound_printed(clients: int, k: float, delta: float, period: int) -> SpectralBound:
    """ρ_k ≤ 1 - [m²δ + k² + 2mk]² δ² / (8(m+k)^{4P+2}) (eq. block spectral), proved for k = 1, 2, …"""
    require(period >= 1, f"period {period} must be at least 1")
    require(k > 0.0, "the block bound needs k > 0: without interpolation a window may not mix at all")
    return _from_log_gap(_log_gap(clients, k, delta, power=4 * period + 2))


def block_bound(clients: int, k: float, delta: float, period: int) -> SpectralBound:
    """The block bound for every real k > 0: the printed gap times min(1, k)^{4P-2}.

    The proof walks through a virtual client and uses its self-loop weight 1/(|A|+k), which needs a whole one. With
    k < 1 the virtual mass keeps k/(|A|+k) per round; a walk there and back makes at most 2P-1 such steps, and
    Cheeger's inequality squares their product. As k → 0 the bound tends to 1, as ρ_k does for alternating groups.
    """
    printed = block_bound_printed(clients, k, delta, period)
    return _from_log_gap(printed.log_gap + (4 * period - 2) * math.log(min(1.0, k)))
