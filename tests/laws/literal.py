"""The published loops, restated literally: float64 numpy, one client and one round at a time.

Every function takes the initial model x [d], the availability mask [T, m] and local(i, start, t, drift),
which returns the end model of client i's local SGD steps of round t; it gives x^1, ..., x^T, one after the other.
Tables are full, counters of absent clients advance every round, nothing is lazy or in closed form.
Delta_i = end - start is a descent direction; A is the set of available clients, n their number; lr is the global rate.
"""

import math

import numpy as np


def _rounds(mask):
    """The rounds, each with its available set A^t in increasing order."""
    return enumerate(np.flatnonzero(row).tolist() for row in mask)


def fedswe(
    x, mask, local, *, lr=1.0, k=100.0, clip=0.0, echo_cap=0, progress_over="all", quantile=None, bound_rate=0.2
):
    """FedSWE (Xiang, Ioannidis, Yeh, Joe-Wong, Su 2026), Algorithm 1; clip is the released code's.

    With a quantile: the echo is bounded by an estimate of this quantile over the reports of all clients.
    """
    m = mask.shape[1]
    x_local = [x for _ in range(m)]
    tau = [-1 for _ in range(m)]
    bound = 1.0
    for t, A in _rounds(mask):
        n = len(A)
        above = 0
        reported, echoed = {}, {}
        for i in A:
            start = x_local[i]
            G = start - local(i, start, t)
            echo = t - tau[i]
            if echo_cap > 0:
                echo = min(echo, echo_cap)
            if quantile is not None and t - tau[i] > bound:
                above += 1
                echo = min(echo, bound)
            echoed[i] = -echo * G
            reported[i] = start - lr * echo * G
            tau[i] = t
        if n > 0 and quantile is not None:
            bound = max(1.0, bound * np.exp(bound_rate * (above / n - (1 - quantile))))
        if n + k > 0:
            if clip > 0 or progress_over == "active":
                centre = (k * x + sum(x_local[i] for i in A)) / (n + k)
                step = np.zeros_like(x) + sum(echoed.values())
                if progress_over == "all":
                    step = step / (n + k)
                elif n > 0:
                    step = step / n
                norm = np.sqrt(np.sum(step**2))
                if clip > 0 and norm > clip:
                    step = step * (clip / norm)
                x = centre + lr * step
            else:
                x = (k * x + sum(reported.values())) / (n + k)
        for i in A:
            x_local[i] = x
        yield x


def fedawe(x, mask, local, *, lr=1.0, clip=0.0, echo_cap=0):
    """FedAWE (Xiang, Ioannidis, Yeh, Joe-Wong, Su 2024): FedSWE with k = 0."""
    return fedswe(x, mask, local, lr=lr, k=0.0, clip=clip, echo_cap=echo_cap)


def fedavg(x, mask, local, *, lr=1.0, clip=0.0):
    """FedAvg over the available clients (McMahan et al. 2017), unweighted; clip is not theirs."""
    for t, A in _rounds(mask):
        if len(A) > 0:
            step = sum(local(i, x, t) - x for i in A) / len(A)
            norm = np.sqrt(np.sum(step * step))
            if clip > 0 and norm > clip:
                step = step * (clip / norm)
            x = x + lr * step
        yield x


def fednova(x, mask, local, *, steps, lr=1.0):
    """Normalised averaging (Wang et al. 2020, eq. 9 and 10): of directions, times the effective number of steps."""
    for t, A in _rounds(mask):
        if len(A) > 0:
            effective = sum(steps / len(A) for i in A)
            x = x + lr * effective * sum((local(i, x, t) - x) / steps / len(A) for i in A)
        yield x


def fedavg_all(x, mask, local, *, lr=1.0):
    """FedAvg over all clients (McMahan et al. 2017): absent clients count as a zero update."""
    m = mask.shape[1]
    for t, A in _rounds(mask):
        x = x + lr / m * sum(local(i, x, t) - x for i in A)
        yield x


def fedavg_known(x, mask, local, *, probs, lr=1.0):
    """FedAvg with known participation probabilities (Perazzone et al. 2022): weights 1 / p_i^t."""
    m = mask.shape[1]
    for t, A in _rounds(mask):
        x = x + lr / m * sum((local(i, x, t) - x) / probs[t, i] for i in A)
        yield x


def gfedavg(x, mask, local, *, lr=1.0, amplification=10.0, period=100):
    """Generalized FedAvg with amplified updates (Wang and Ji 2022)."""
    anchor = x
    counter = 0
    for t, A in _rounds(mask):
        if len(A) > 0:
            x = x + lr / len(A) * sum(local(i, x, t) - x for i in A)
        counter += 1
        if counter == period:
            x = anchor + amplification * (x - anchor)
            anchor = x
            counter = 0
        yield x


def fedau(x, mask, local, *, lr=1.0, cutoff=50):
    """FedAU (Wang and Ji 2024): weights are mean participation intervals, cut off at a maximum."""
    m = mask.shape[1]
    S = [0 for _ in range(m)]
    M = [0 for _ in range(m)]
    omega = [1.0 for _ in range(m)]
    for t, A in _rounds(mask):
        x = x + lr / m * sum(omega[i] * (local(i, x, t) - x) for i in A)
        # The interval that ends in this round enters omega only from the next round on.
        for i in range(m):
            S[i] += 1
            if i in A or S[i] == cutoff:
                omega[i] = float(S[i]) if M[i] == 0 else (M[i] * omega[i] + S[i]) / (M[i] + 1)
                M[i] += 1
                S[i] = 0
        yield x


def _mean_intervals(mask, cutoff):
    """FedAU's omega_i of every round: the means of the intervals that ended before it."""
    T, m = mask.shape
    omega = np.ones((T + 1, m))
    for i in range(m):
        waited, recorded = 0, []
        for t in range(T):
            waited += 1
            if mask[t, i] or waited == cutoff:
                recorded.append(waited)
                waited = 0
            omega[t + 1, i] = np.mean(recorded or [1.0])
    return omega


def interval_weights(x, mask, local, *, lr=1.0, power=0.5, cutoff=50, longest=1.0, least=0.0):
    """The weighted mean of the progress, with weights that are powers of FedAU's mean intervals.

    With least > 0 rounds whose weights sum to less than least m make a shorter step. With longest > 1 it is
    extrapolated as in FedExP (Jhunjhunwala and others, ICLR 2023), with the same weights.
    """
    m = mask.shape[1]
    omega = _mean_intervals(mask, cutoff)
    for t, A in _rounds(mask):
        if A:
            weights = omega[t] ** power
            moved = {i: local(i, x, t) - x for i in A}
            total = sum(weights[i] for i in A)
            mean = sum(weights[i] * moved[i] for i in A) / total
            squares = sum(weights[i] * np.sum(moved[i] ** 2) for i in A) / total
            eta = min(max(1.0, squares / (2 * np.sum(mean**2))), longest)
            x = x + lr * eta * mean * total / max(total, least * m)
        yield x


def fedexp(x, mask, local, *, longest=10.0, **parameters):
    return interval_weights(x, mask, local, power=0.0, longest=longest, **parameters)


def interval_extrapolation(x, mask, local, *, power=1.0, longest=10.0, least=1.0, **parameters):
    return interval_weights(x, mask, local, power=power, longest=longest, least=least, **parameters)


def keel(x, mask, local, *, lr=1.0, power=0.5, cutoff=50, longest=10.0, steady=0.7, recent=3.0):
    """The weighted mean of the progress, extrapolated, moves a point ahead of its average; clients train between."""
    omega = _mean_intervals(mask, cutoff)
    ahead, seen = x, []  # the points after each round with reports
    for t, A in _rounds(mask):
        if A:
            weights = omega[t] ** power
            moved = {i: local(i, x, t) - x for i in A}
            total = sum(weights[i] for i in A)
            mean = sum(weights[i] * moved[i] for i in A) / total
            squares = sum(weights[i] * np.sum(moved[i] ** 2) for i in A) / total
            ahead = ahead + lr * min(max(1.0, squares / (2 * np.sum(mean**2))), longest) * mean
            seen.append(ahead)
            # c_n = (r + 1) / (n + r) gives the j-th point the weight j (j + 1) ... (j + r - 1), in gamma functions
            weight = [math.exp(math.lgamma(j + recent) - math.lgamma(j)) for j in range(1, len(seen) + 1)]
            x = (1 - steady) * ahead + steady * np.average(seen, axis=0, weights=weight)
        yield x


def decayed_memory(x, mask, local, *, lr=1.0, decay=0.9, power=1.0, cutoff=50):
    """The weighted mean of a table of last updates."""
    omega = _mean_intervals(mask, cutoff)
    table = {}  # client -> (round, weight, update)
    for t, A in _rounds(mask):
        for i in A:
            table[i] = t, (decay + (1 - decay) * omega[t, i]) ** power, local(i, x, t) - x
        if A:
            weights = {i: decay ** (t - since) * u for i, (since, u, _) in table.items()}
            x = x + lr * sum(weights[i] * table[i][2] for i in table) / sum(weights.values())
        yield x


def f3ast(x, mask, local, *, lr=1.0, beta=0.001, budget=10, initial_rate=1.0, tie_break=None):
    """F3AST (Ribero, Vikalo, de Veciana 2022), uniform weights; ties by tie_break(t)[i], then by index."""
    m = mask.shape[1]
    r = [float(initial_rate) for _ in range(m)]
    w = 1.0 / m
    for t, A in _rounds(mask):
        ties = tie_break(t)
        # Largest w^2 / r_i^2 first, that is smallest r_i; r is the estimate before this round.
        ranked = sorted((r[i], float(ties[i]), i) for i in A)
        selected = [i for _, _, i in ranked[: budget or m]]
        for i in range(m):
            r[i] = (1.0 - beta) * r[i] + beta * (i in selected)
        x = x + lr * sum(w / r[i] * (local(i, x, t) - x) for i in selected)
        yield x


def mifa(x, mask, local, *, lr=1.0, start="zero", store="delta", local_lr=None):
    """MIFA (Gu et al. 2021): every round applies the mean of the last update of every client."""
    m = mask.shape[1]
    memory = [np.zeros_like(x) for _ in range(m)]
    seen = [False for _ in range(m)]
    for t, A in _rounds(mask):
        scale = local_lr(t) if store == "delta_over_lr" else 1.0
        for i in A:
            memory[i] = (local(i, x, t) - x) / scale
            seen[i] = True
        # While waiting, x is still x^0, so every entry of the table is computed there.
        if start == "zero" or all(seen):
            x = x + lr * scale * (sum(memory) / m)
        yield x


def fedvarp(x, mask, local, *, lr=1.0, empty="skip"):
    """FedVARP (Jhunjhunwala et al. 2022); empty: a round without clients is skipped or applies y_bar."""
    m = mask.shape[1]
    y = [np.zeros_like(x) for _ in range(m)]
    y_bar = np.zeros_like(x)
    for t, A in _rounds(mask):
        if len(A) > 0:
            delta = {i: local(i, x, t) - x for i in A}
            v = y_bar + sum(delta[i] - y[i] for i in A) / len(A)
            x = x + lr * v
            for i in A:
                y[i] = delta[i]
            y_bar = sum(y) / m
        elif empty == "memory":
            x = x + lr * y_bar
        yield x


def scaffold(x, mask, local, *, steps, local_lr, lr=1.0):
    """SCAFFOLD (Karimireddy et al. 2020), option II."""
    m = mask.shape[1]
    c = np.zeros_like(x)
    c_local = [np.zeros_like(x) for _ in range(m)]
    for t, A in _rounds(mask):
        if len(A) > 0:
            y = {i: local(i, x, t, drift=c - c_local[i]) for i in A}
            c_plus = {i: c_local[i] - c + (x - y[i]) / (steps * local_lr(t)) for i in A}
            x = x + lr / len(A) * sum(y[i] - x for i in A)
            c = c + sum(c_plus[i] - c_local[i] for i in A) / m
            for i in A:
                c_local[i] = c_plus[i]
        yield x


def amplified_scaffold(x, mask, local, *, steps, local_lr, lr=1.0, amplification=1.5, period=100):
    """Amplified SCAFFOLD (Crawshaw and Liu 2024): controls and amplification change at window ends only."""
    m = mask.shape[1]
    anchor = x
    c = np.zeros_like(x)
    c_local = [np.zeros_like(x) for _ in range(m)]
    gradients = [[] for _ in range(m)]
    counter = 0
    for t, A in _rounds(mask):
        if len(A) > 0:
            y = {i: local(i, x, t, drift=c - c_local[i]) for i in A}
            for i in A:
                gradients[i].append((x - y[i]) / (steps * local_lr(t)) - (c - c_local[i]))
            x = x + lr / len(A) * sum(y[i] - x for i in A)
        counter += 1
        if counter == period:
            x = anchor + amplification * (x - anchor)
            anchor = x
            for i in range(m):
                if len(gradients[i]) > 0:
                    c_local[i] = sum(gradients[i]) / len(gradients[i])
            c = sum(c_local) / m
            gradients = [[] for _ in range(m)]
            counter = 0
        yield x


def fedpbc(x, mask, local, *, lr=1.0):
    """FedPBC (Xiang et al. 2023): all clients train every round, the available ones synchronise."""
    m = mask.shape[1]
    x_local = [x for _ in range(m)]
    for t, A in _rounds(mask):
        for i in range(m):
            x_local[i] = x_local[i] + lr * (local(i, x_local[i], t) - x_local[i])
        if len(A) > 0:
            x = sum(x_local[i] for i in A) / len(A)
            for i in A:
                x_local[i] = x
        yield x


def echo(x, mask, local, *, lr=1.0, cap=0.0):
    """FedAvg from the server's model, progress times rounds missed, over m; a counter runs while a client is absent."""
    m = mask.shape[1]
    missed = [1 for _ in range(m)]
    for t, A in _rounds(mask):
        x = x + lr / m * sum((min(missed[i], cap) if cap > 0 else missed[i]) * (local(i, x, t) - x) for i in A)
        for i in range(m):
            missed[i] = 1 if i in A else missed[i] + 1
        yield x


def debiased_fedavg(x, mask, local, *, lr=1.0):
    """Debiasing FedAvg (Sun et al. 2025) with the weight 1 / (m frequency so far) on the progress."""
    m = mask.shape[1]
    for t, A in _rounds(mask):
        frequency = np.mean(mask[: t + 1], axis=0)
        x = x + lr * sum((local(i, x, t) - x) / (m * frequency[i]) for i in A)
        yield x


def fedstale_known(x, mask, local, *, probs, lr=1.0, beta=0.5):
    """FedStale (Rodio and Neglia 2024) with a table h of all clients at the server; empty rounds are skipped."""
    m = mask.shape[1]
    h = np.zeros((m, len(x)))
    for t, A in _rounds(mask):
        if len(A) > 0:
            delta = {i: local(i, x, t) - x for i in A}
            x = x + lr * (beta * np.mean(h, axis=0) + sum((delta[i] - beta * h[i]) / (m * probs[t, i]) for i in A))
            for i in A:
                h[i] = delta[i]
        yield x


def fedstale(x, mask, local, *, lr=1.0, beta=0.5, cutoff=50):
    """FedStale with FedAU's estimates of 1/p."""
    return fedstale_known(x, mask, local, probs=1.0 / _mean_intervals(mask, cutoff), lr=lr, beta=beta)


def fedlaavg(x, mask, local, *, local_lr, lr=1.0, budget=0, tie_break=None):
    """FedLaAvg (Yan et al. 2020): latest gradient sums of all clients; selected longest ago, selected first."""
    m = mask.shape[1]
    latest = np.zeros((m, len(x)))
    selected = [-1 for _ in range(m)]
    for t, A in _rounds(mask):
        ties = tie_break(t)
        ranked = sorted((selected[i], float(ties[i]), i) for i in A)
        for _, _, i in ranked[: budget or m]:
            latest[i] = (x - local(i, x, t)) / local_lr(t)
            selected[i] = t
        x = x - lr * local_lr(t) * np.mean(latest, axis=0)
        yield x


def mimic(x, mask, local, *, lr=1.0):
    """MimiC (Sun, Mao, Zhang 2023): g + v_last - g_last of each available client, averaged."""
    m = mask.shape[1]
    g_last = np.zeros((m, len(x)))
    v_last = np.zeros((m, len(x)))
    for t, A in _rounds(mask):
        if len(A) > 0:
            g = {i: x - local(i, x, t) for i in A}
            v = sum(g[i] + v_last[i] - g_last[i] for i in A) / len(A)
            x = x - lr * v
            for i in A:
                g_last[i], v_last[i] = g[i], v
        yield x


def focus(x, mask, local, *, steps, local_lr, lr=1.0):
    """FOCUS (Ying, Li, Yang 2025) with the mean gradient of a visit; the sum y of all of them drives the server."""
    m = mask.shape[1]
    g_prev = np.zeros((m, len(x)))
    for t, A in _rounds(mask):
        if len(A) > 0:
            for i in A:
                end = local(i, x, t, drift=-g_prev[i])
                g_prev[i] = (x - end) / (steps * local_lr(t)) + g_prev[i]
            y = np.sum(g_prev, axis=0)
            x = x - lr * steps / m * local_lr(t) * y
        yield x


def _staleness_weight(staleness, weighting, power, slope, grace):
    if weighting == "polynomial":
        return (1.0 + staleness) ** (-power)
    if weighting == "hinge":
        return 1.0 if staleness <= grace else 1.0 / (slope * (staleness - grace) + 1.0)
    return 1.0


def fedasync(x, mask, local, *, lr=1.0, alpha=0.6, weighting="polynomial", power=0.5, slope=10.0, grace=4.0):
    """FedAsync (Xie et al. 2019): the mean over the arrivals of a round of (1 - alpha_i) x + alpha_i x_i."""
    m = mask.shape[1]
    versions = [x]
    downloaded = [0 for _ in range(m)]
    for t, A in _rounds(mask):
        mixed = []
        for i in A:
            a = alpha * _staleness_weight(len(versions) - 1 - downloaded[i], weighting, power, slope, grace)
            mixed.append((1 - a) * x + a * local(i, versions[downloaded[i]], t))
        if len(A) > 0:
            x = x + lr * (np.mean(mixed, axis=0) - x)
            versions.append(x)
        for i in A:
            downloaded[i] = len(versions) - 1
        yield x


def fedbuff(x, mask, local, *, lr=1.0, buffer=10, weighting="polynomial", power=0.5, slope=10.0, grace=4.0):
    """FedBuff (Nguyen et al. 2022): a list of weighted progress, averaged and emptied when it is long enough."""
    m = mask.shape[1]
    versions, held = [x], []
    downloaded = [0 for _ in range(m)]
    for t, A in _rounds(mask):
        for i in A:
            start = versions[downloaded[i]]
            w = _staleness_weight(len(versions) - 1 - downloaded[i], weighting, power, slope, grace)
            held.append(w * (local(i, start, t) - start))
        if len(A) > 0 and len(held) >= buffer:
            x = x + lr * np.mean(held, axis=0)
            versions.append(x)
            held = []
        for i in A:
            downloaded[i] = len(versions) - 1
        yield x


def ace(x, mask, local, *, lr=1.0):
    """ACE (Chang et al. 2025): the mean of a table of the latest updates, at every arrival; the start is stale."""
    m = mask.shape[1]
    table = np.zeros((m, len(x)))
    start = [x for _ in range(m)]
    for t, A in _rounds(mask):
        for i in A:
            table[i] = local(i, start[i], t) - start[i]
        if len(A) > 0:
            x = x + lr * np.mean(table, axis=0)
        for i in A:
            start[i] = x
        yield x


def ca2fl(x, mask, local, *, lr=1.0):
    """CA2FL (Wang et al. 2024): the mean of cached updates, plus the calibrated progress of the arrivals."""
    m = mask.shape[1]
    h = np.zeros((m, len(x)))
    start = [x for _ in range(m)]
    for t, A in _rounds(mask):
        if len(A) > 0:
            delta = {i: local(i, start[i], t) - start[i] for i in A}
            x = x + lr * (np.mean(h, axis=0) + np.mean([delta[i] - h[i] for i in A], axis=0))
            for i in A:
                h[i] = delta[i]
                start[i] = x
        yield x


def area(x, mask, local, *, lr=1.0):
    """AREA (Iakovidou and Kim 2025): the mean of a table of local models; the global rate belongs to the table."""
    table = np.stack([x] * mask.shape[1])
    for t, A in _rounds(mask):
        for i in A:
            table[i] = x + lr * (local(i, x, t) - x)
        x = np.mean(table, axis=0)
        yield x


def ghbm(x, mask, local, *, steps, local_lr, lr=1.0, beta=0.9, tau=10):
    """GHBM (Zaccone et al. 2025), with the local rate of the last round with reports."""
    queue, rate = [x], None
    for t, A in _rounds(mask):
        ends = []
        for i in A:
            momentum = np.zeros_like(x) if len(queue) <= tau or rate is None else (queue[-tau - 1] - queue[-1]) / tau
            ends.append(local(i, x, t, drift=beta / (steps * (rate or 1.0)) * momentum))
        if len(A) > 0:
            x = x + lr * (np.mean(ends, axis=0) - x)
            rate = local_lr(t)
        queue.append(x)
        yield x


def local_ghbm(x, mask, local, *, steps, local_lr, lr=1.0, beta=0.9):
    """LocalGHBM (Zaccone et al. 2025), with the rounds between and the local rate of the client's last report."""
    anchor = [None for _ in range(mask.shape[1])]
    away = np.zeros(mask.shape[1])
    for t, A in _rounds(mask):
        away += 1
        ends = []
        for i in A:
            drift = np.zeros_like(x)
            if anchor[i] is not None:
                received, rate = anchor[i]
                drift = beta / (steps * rate) * (received - x) / away[i]
            ends.append(local(i, x, t, drift=drift))
            anchor[i], away[i] = (x, local_lr(t)), 0
        if len(A) > 0:
            x = x + lr * (np.mean(ends, axis=0) - x)
        yield x


LITERAL = {name: rule for name, rule in globals().items() if callable(rule) and not name.startswith("_")}
LITERAL |= {"fedswe_variant": fedswe, "bounded_fedswe": fedswe}
