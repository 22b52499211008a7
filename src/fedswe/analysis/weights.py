"""How much each client counts where a rule ends: weights of the optima of quadratics of equal curvature, 1 is fair.

A record is assumed to repeat. For rules that divide weights of their own by their sum, this is exact for rates that
tend to 0; for FedSWE it is the mean over the rounds of the limit of `fedswe.theory.limits`.
"""

from __future__ import annotations

import numpy as np

from fedswe.algorithms import FedAvg, FedExP, FedSWE, Keel
from fedswe.availability.schedule import Bools, Floats
from fedswe.core.algorithm import Algorithm
from fedswe.theory.limits import fedswe_trace_limit

STEP = 0.01  # of the way to its optimum that a client goes in FedSWE, per report; as in fedswe theory bias
_ROUNDS, _CELLS = 3000, 3_000_000  # that FedSWE's limit is computed for: it takes the cube of the rounds


def client_weights(rule: Algorithm, available: Bools) -> tuple[Floats | None, str]:
    """[m], of a record [rounds, m], or None where they are not known; and what must be said with them."""
    rounds, m = available.shape
    if isinstance(rule, FedSWE):
        if rounds > _ROUNDS or available.size > _CELLS:
            return None, f"not computed: of more than {_ROUNDS} rounds, or {_CELLS:,} rounds times clients"
        ever = available.any(axis=0)
        limit = fedswe_trace_limit(available[:, ever], STEP, rule.copies(m))
        if limit.spectral_radius >= 1:
            return None, f"not known: with a step of {STEP} the mean does not converge"
        weights = np.zeros(m)
        weights[ever] = limit.server.mean(axis=0) * m
        return weights, "the server model (the client mean counts all alike); single runs vary, more with long echoes"
    longer = "without its longer steps in rounds where clients disagree, whose effect is not known"
    if isinstance(rule, FedAvg):
        return _divided(available, np.ones(m)), longer * isinstance(rule, FedExP)
    if isinstance(rule, Keel):
        return _divided(available, _intervals(available, rule.cutoff) ** rule.power), longer
    return None, "not known: there is no formula for it"


def _divided(available: Bools, weights: Floats) -> Floats:
    """Of steps that are means over those who are there with these weights."""
    t, client = np.nonzero(available)
    total = np.bincount(t, weights[client], minlength=1)
    found = weights * np.bincount(client, 1 / total[t], minlength=len(weights))
    return np.asarray(found / found.sum() * len(weights))


def _intervals(available: Bools, cutoff: int) -> Floats:
    """[m], the mean of the participation intervals that FedAU records in the long run; 1 for a client that never is."""
    client, t = np.nonzero(available.T)
    first = np.append(True, client[1:] != client[:-1])[: len(client)]
    previous = np.where(first, 0, np.roll(t, 1))
    previous[first] = t[np.roll(first, -1)] - len(available)
    recorded = np.bincount(client, 1 + (t - previous - 1) // cutoff, minlength=available.shape[1])
    return np.asarray(len(available) / np.where(recorded > 0, recorded, len(available)))
