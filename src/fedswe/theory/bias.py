"""Which client's optimum an algorithm settles at under a given availability, and how far from the true one.

Exact on quadratics of equal curvature (``fedswe.theory.limits``). Elsewhere it is the picture to expect while the
clients' curvatures are alike: the weights depend on the availability and the step only.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.aggregation_weights import aggregation_weights
from fedswe.theory.assumption import FloatArray, availability_trace, probability_matrix
from fedswe.theory.counterexample import fedswe_trace_limit
from fedswe.theory.limits import ExpectedLimit, echo_gain, fedavg_active_limit, fedavg_all_limit, fedswe_limit


@dataclass(frozen=True, eq=False)
class ModelBias:
    """Where one evaluated model settles in expectation, over a period of P rounds."""

    weights: FloatArray  # [P, m], on the clients' optima; 1/m each would be unbiased
    limit: FloatArray  # [P, d]; row t: after the rounds ≡ t modulo P
    average: FloatArray  # [d], the mean over the period
    distance: float  # ‖average - x*‖
    worst_distance: float  # the largest ‖limit[t] - x*‖
    most_overweighted: int  # the client with the largest weight, averaged over the period
    excess: float  # that weight minus 1/m


@dataclass(frozen=True, eq=False)
class AlgorithmBias:
    """An algorithm at its server model and at the mean over clients of the model each last received."""

    server: ModelBias
    client_mean: ModelBias


@dataclass(frozen=True, eq=False)
class BiasReport:
    """What an availability does to FedAvg, and how far FedSWE corrects it."""

    optimum: FloatArray  # [d], x*, the mean of the clients' optima
    step: float  # a, see ``visit_step``
    k: float
    echo_gain: float  # above 2 single random runs of FedSWE can spread without bound, see ``limits.echo_gain``
    fedavg_active: AlgorithmBias
    fedavg_all: AlgorithmBias
    fedswe: AlgorithmBias


def bias_report(prob: npt.ArrayLike, centers: npt.ArrayLike, step: float, k: float) -> BiasReport:
    """The exact expected limits under one period ``prob`` [P, m] (0/1 entries: a repeated trace).

    ``centers`` are the clients' optima u_i, [m] or [m, d]; ``step`` is ``visit_step(local_lr, steps, lr)``.
    """
    table = probability_matrix(prob)
    return _report(table, centers, step, k, fedswe_limit(table, step, k))


def trace_bias_report(trace: npt.ArrayLike, centers: npt.ArrayLike, step: float, k: float) -> BiasReport:
    """The same for a 0/1 ``trace`` [P, m] that repeats, by P linear equations instead of O(P m³) work."""
    limit = fedswe_trace_limit(trace, step, k)
    require(
        limit.spectral_radius < 1.0,
        f"FedSWE does not settle on this trace with step {step} and k = {k} (its deviations grow by the factor "
        f"{limit.spectral_radius:.3g} each time the trace repeats): choose a smaller step",
    )
    expected = ExpectedLimit(limit.server, limit.client_mean)
    return _report(availability_trace(trace).astype(np.float64), centers, step, k, expected)


def _report(prob: FloatArray, centers: npt.ArrayLike, step: float, k: float, fedswe: ExpectedLimit) -> BiasReport:
    optima = np.asarray(centers, dtype=np.float64)
    optima = optima[:, None] if optima.ndim == 1 else optima
    require(
        optima.ndim == 2 and len(optima) == prob.shape[1],
        f"{prob.shape[1]} clients and optima of shape {np.shape(centers)}: give one optimum per client",
    )
    require(np.isfinite(optima).all(), "the clients' optima must be finite numbers")
    return BiasReport(
        optimum=optima.mean(axis=0),
        step=step,
        k=k,
        echo_gain=echo_gain(prob, step),
        fedswe=_algorithm_bias(fedswe, optima),
        fedavg_active=_algorithm_bias(fedavg_active_limit(prob, step), optima),
        fedavg_all=_algorithm_bias(fedavg_all_limit(prob, step), optima),
    )


def _algorithm_bias(limit: ExpectedLimit, optima: FloatArray) -> AlgorithmBias:
    return AlgorithmBias(_model_bias(limit.server, optima), _model_bias(limit.client_mean, optima))


def _model_bias(weights: FloatArray, optima: FloatArray) -> ModelBias:
    limit, optimum = weights @ optima, optima.mean(axis=0)
    average, share = limit.mean(axis=0), weights.mean(axis=0)
    return ModelBias(
        weights=weights,
        limit=limit,
        average=average,
        distance=float(np.linalg.norm(average - optimum)),
        worst_distance=float(np.linalg.norm(limit - optimum, axis=1).max()),
        most_overweighted=int(share.argmax()),
        excess=float(share.max() - 1.0 / len(share)),
    )


def fedavg_bias_map(p1: npt.ArrayLike, p2: npt.ArrayLike, centers: tuple[float, float] = (0.0, 100.0)) -> FloatArray:
    """Figure 2: |x_output - x*| of FedAvg over active clients, two clients; entry [i, j] at (p1[i], p2[j]).

    x_output = (w_1 u_1 + w_2 u_2)/(w_1 + w_2), w_1 = p_1(1 - p_2/2), w_2 = p_2(1 - p_1/2), for every step.
    At (0, 0) nobody ever takes part: NaN.
    """
    first, second = np.meshgrid(np.asarray(p1, np.float64), np.asarray(p2, np.float64), indexing="ij")
    weights = aggregation_weights(np.stack([first.ravel(), second.ravel()], axis=1))
    total = weights.sum(axis=1)
    output = np.full(len(weights), np.nan)
    np.divide(weights @ np.asarray(centers), total, out=output, where=total > 0.0)
    distance: FloatArray = np.abs(output - np.mean(centers)).reshape(first.shape)
    return distance
