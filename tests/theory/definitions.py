"""Definitions of the paper written out literally; the tests compare the faster functions of fedswe.theory with them."""

import itertools
import math
from functools import reduce

import numpy as np

from fedswe.theory.mixing import check_interpolation


def mixing_matrix(available, k):
    """W of one round [m + k, m + k]: 1/(|A| + k) between available and virtual clients, identity on absent clients.

    Without any of them W = I: the server keeps its model.
    """
    return _projection(np.concatenate([np.asarray(available, dtype=float), np.ones(int(k))]))


def reduced_mixing_matrix(available, k):
    """W with the virtual clients as one coordinate of weight sqrt(k) [m + 1, m + 1], for every real k >= 0."""
    check_interpolation(len(available), k)
    reduced = _projection(np.append(np.asarray(available, dtype=float), math.sqrt(k)))
    reduced[-1, -1] *= k > 0  # without virtual clients their coordinate is empty, not absent
    return reduced


def _projection(weights):
    absent = np.diag((weights == 0).astype(float))
    return absent + np.outer(weights, weights) / (float(weights @ weights) or 1.0)


def window_product(trace, k):
    """W^(0) W^(1) ... W^(P-1) for the P rounds of `trace` [P, m], in this order."""
    return reduce(np.matmul, [mixing_matrix(row, k) for row in trace])


def enumerated_gram(prob, k):
    """E[W W^T] of the window `prob` [P, m], reduced, by summing over all 2^m available sets of a round.

    Rounds are independent, so S <- E[W^(t) S W^(t)] from S = I, last round first, is exact.
    """
    table = np.asarray(prob, dtype=float)
    clients = table.shape[1]
    sets = (np.arange(2**clients)[:, None] >> np.arange(clients)) & 1
    matrices = np.stack([reduced_mixing_matrix(row, k) for row in sets])
    gram = np.eye(clients + 1)
    for p in table[::-1]:
        chance = np.where(sets, p, 1 - p).prod(axis=1)
        gram = np.tensordot(chance, matrices @ gram @ matrices, axes=1)
    return gram


def staleness_survival(prob, t):
    """P(t - tau_i(t) > r), the product of 1 - p_i^q over q = t-r..t-1, for r = 0..t, and 0 for r = t+1: [t+2, m].

    The value t + 1 (never available before t) carries the remaining mass, because tau_i(t) >= -1.
    """
    table = np.asarray(prob, dtype=float)
    ends = np.ones((1, table.shape[1]))
    return np.concatenate([ends, np.cumprod(1 - table[:t][::-1], axis=0), 0 * ends])


def staleness_pmf(prob, t):
    """P(t - tau_i(t) = r) for r = 0..t+1 (entry 0 is 0): shape [t+2, m]."""
    survival = staleness_survival(prob, t)
    return np.concatenate([np.zeros((1, survival.shape[1])), -np.diff(survival, axis=0)])


def auxiliary_innovation(available, staleness, stochastic_sums, full_gradients, steps):
    """G~_i = 1{i in A}(t - tau_i)(sum_r grad l_i - s grad F_i) + s grad F_i [m, d], and 0 for virtual clients.

    With it Z^{t+1} = (Z^t - eta_l eta_g G~^t) W^(t) exactly.
    """
    full = steps * full_gradients
    echoed = np.asarray(staleness, dtype=float)[:, None] * (stochastic_sums - full)
    return np.where(np.asarray(available)[:, None], echoed, 0.0) + full


def conference_bound(clients, delta):
    """k = 0, P = 1 (lemma of the conference version): rho_0 <= 1 - delta^4 (1 - (1 - delta)^m)^2 / 8."""
    return 1 - delta**4 * (1 - (1 - delta) ** clients) ** 2 / 8


def perturbation_bound(local_lr, steps, smoothness, sigma_squared, gradient_norm_squared):
    """Lemma (multi-local steps), for eta_l <= 1/(4sL): bounds E||sum_r (grad F_i(x_i^(t,r)) - grad F_i(x_i^t))||^2."""
    scale = local_lr**2 * steps**3 * smoothness**2
    return scale * (5 * sigma_squared + 20 * steps * gradient_norm_squared)


def two_groups_converge(h1, h2, step, k):
    """Whether the counterexample converges: both eigenvalues of its two-round map lie inside the unit circle.

    With c_g = h_g(1-2a)/(h_g+k) and d_g = k/(h_g+k) the map has determinant c_1 c_2 and trace c_1 + c_2 + d_1 d_2.
    """
    scale = (h1 + k) * (h2 + k)
    determinant = h1 * h2 * (1 - 2 * step) ** 2 / scale
    trace = (1 - 2 * step) * (h1 / (h1 + k) + h2 / (h2 + k)) + k**2 / scale
    return bool(determinant < 1 and abs(trace) < 1 + determinant)


def enumerated_errors(problem, prob):
    """The fields of expected errors before rounds 0..T, by Algorithm 1 along all 2^(mT) availability sequences.

    `prob` [T, m]. A model is a vector of coefficients on the independent random variables: the start, the optima and
    the noise of every local step; an expected square is the sum of squared coefficients times variances.
    """
    table = np.asarray(prob, dtype=float)
    rounds, m = table.shape
    steps, k, c = problem.steps, problem.k, problem.curvature
    total, count = m + k, 1 + m + rounds * m * steps
    variance = np.full(count, problem.sigma**2)
    variance[0], variance[1 : m + 1] = problem.start**2, problem.spread**2
    unit = np.eye(count)
    optimum, best = unit[1 : m + 1], unit[1 : m + 1].mean(0)
    rate = problem.local_lr * problem.lr * steps * c
    sums = [{} for _ in range(rounds + 1)]

    def square(rows):
        return float((np.atleast_2d(rows) ** 2 @ variance).sum())

    def record(t, chance, server, x, echo):
        z = x - rate * (echo - 1)[:, None] * (x - optimum)
        mean, mean_z = (x.sum(0) + k * server) / total, (z.sum(0) + k * server) / total
        values = {
            "server_gradient": c**2 * square(server - best),
            "client_mean_gradient": c**2 * square(x.mean(0) - best),
            "mean_gradient": c**2 * square(mean - best),
            "auxiliary_gradient": c**2 * square(mean_z - best),
            "approximation": square(x - z) / total,
            "auxiliary_consensus": (square(z - mean_z) + k * square(server - mean_z)) / total,
            "regular_auxiliary_consensus": square(z - mean_z) / total,
            "consensus": (square(x - mean) + k * square(server - mean)) / total,
        }
        for name, value in values.items():
            sums[t][name] = sums[t].get(name, 0.0) + chance * value

    def follow(t, chance, server, x, echo):
        record(t, chance, server, x, echo)
        if t == rounds:
            return
        for flags in itertools.product([False, True], repeat=m):
            here = np.array(flags)
            weight = chance * np.where(here, table[t], 1 - table[t]).prod()
            if weight == 0:
                continue
            local = x.copy()
            for r in range(steps):
                noise = unit[1 + m + (t * m + np.arange(m)) * steps + r]
                local = local - problem.local_lr * (c * (local - optimum) + noise)
            report = x + problem.lr * echo[:, None] * (local - x)
            after = server
            if here.sum() + k > 0:
                after = (report[here].sum(0) + k * server) / (here.sum() + k)
            follow(t + 1, weight, after, np.where(here[:, None], after, x), np.where(here, 1.0, echo + 1))

    follow(0, 1.0, unit[0], np.tile(unit[0], (m, 1)), np.ones(m))
    return sums


def two_group_cycle(first, second, step, k):
    """The counterexample of Proposition (counter single) in closed form: x_1, x_2, the clients' mean and x*.

    Groups with the optima `first` [h_1, ...] and `second` alternate, so that after the first visits every echo is 2 and
    k(x_1 - x_2) = -2a h_1(x_1 - u_1), k(x_2 - x_1) = -2a h_2(x_2 - u_2), with u_g a group's mean optimum.
    """
    (h1, mean1), (h2, mean2) = ((len(group), np.mean(group, axis=0)) for group in (first, second))
    gap = (mean1 - mean2) / (1 + k * (1 / h1 + 1 / h2) / (2 * step))
    x1, x2 = mean1 - k * gap / (2 * step * h1), mean2 + k * gap / (2 * step * h2)
    return x1, x2, (h1 * x1 + h2 * x2) / (h1 + h2), (h1 * mean1 + h2 * mean2) / (h1 + h2)


def two_group_trace(h1, h2):
    """One period of the counterexample's availability, [2, h_1 + h_2]."""
    return np.stack([np.arange(h1 + h2) < h1, np.arange(h1 + h2) >= h1])


def paper_first_moment_bound(period, delta):
    """E[t - tau_i(t)] <= P + 1/delta as printed (eq. stale exp); holds when P divides t, not for every t."""
    return period + 1 / delta


def paper_second_moment_bound(period, delta):
    """E[(t - tau_i(t))^2] <= [((P-1)delta+1)^2 + (P-1)delta^2 + 1]/delta^2 as printed; for t divisible by P."""
    return (((period - 1) * delta + 1) ** 2 + (period - 1) * delta**2 + 1) / delta**2


def single_round_gap_printed(clients, k, delta):
    """1 - bound on rho_k for P = 1 as printed (eq. single spectral): above 2 for most m and k, so no bound."""
    return (clients**2 * delta + k**2 + 2 * clients * k) ** 2 * delta**2 / (8 * (clients + k) ** 2)
