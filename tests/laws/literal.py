"""The published loops, restated literally: float64 numpy, one client and one round at a time.

Every function takes the initial model x0 [d], the availability mask [T, m] and local(i, start, t, drift),
which returns the end model of client i's local SGD steps of round t; it returns [x^0, x^1, ..., x^T].
Tables are full, counters of absent clients advance every round, nothing is lazy or in closed form.
Delta_i = end - start is a descent direction; n is the number of available clients; lr is the global rate.
"""

import numpy as np


def _begin(x0, mask):
    """The initial model and the mask as arrays, then the numbers of rounds and of clients."""
    x = np.array(x0, dtype=np.float64)
    mask = np.asarray(mask, dtype=bool)
    return x, mask, mask.shape[0], mask.shape[1]


def _available(mask, t):
    """The available set A^t, in increasing order."""
    return [i for i in range(mask.shape[1]) if mask[t, i]]


def fedswe(
    x0, mask, local, *, lr=1.0, k=100.0, clip=0.0, echo_cap=0, progress_over="all", quantile=None, bound_rate=0.2
):
    """FedSWE (Xiang, Ioannidis, Yeh, Joe-Wong, Su 2026), Algorithm 1; clip is the released code's.

    With a quantile: the echo is bounded by an estimate of this quantile over the reports of all clients.
    """
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    x_local = [x.copy() for _ in range(m)]
    tau = [-1 for _ in range(m)]
    bound = 1.0
    for t in range(T):
        A = _available(mask, t)
        n = len(A)
        above = 0
        reported = {}
        echoed = {}
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
                centre = k * x
                step = np.zeros_like(x)
                for i in A:
                    centre = centre + x_local[i]
                    step = step + echoed[i]
                centre = centre / (n + k)
                if progress_over == "all":
                    step = step / (n + k)
                elif n > 0:
                    step = step / n
                norm = np.sqrt(np.sum(step**2))
                if clip > 0 and norm > clip:
                    step = step * (clip / norm)
                x = centre + lr * step
            else:
                total = k * x
                for i in A:
                    total = total + reported[i]
                x = total / (n + k)
        for i in A:
            x_local[i] = x.copy()
        xs.append(x.copy())
    return xs


def fedawe(x0, mask, local, *, lr=1.0, clip=0.0, echo_cap=0):
    """FedAWE (Xiang, Ioannidis, Yeh, Joe-Wong, Su 2024): FedSWE with k = 0."""
    return fedswe(x0, mask, local, lr=lr, k=0.0, clip=clip, echo_cap=echo_cap)


def fedavg(x0, mask, local, *, lr=1.0, clip=0.0):
    """FedAvg over the available clients (McMahan et al. 2017), unweighted; clip is not theirs."""
    x, mask, T, _ = _begin(x0, mask)
    xs = [x.copy()]
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            total = np.zeros_like(x)
            for i in A:
                total = total + (local(i, x, t) - x)
            step = total / len(A)
            norm = np.sqrt(np.sum(step * step))
            if clip > 0 and norm > clip:
                step = step * (clip / norm)
            x = x + lr * step
        xs.append(x.copy())
    return xs


def fedavg_all(x0, mask, local, *, lr=1.0):
    """FedAvg over all clients (McMahan et al. 2017): absent clients count as a zero update."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    for t in range(T):
        total = np.zeros_like(x)
        for i in range(m):
            if mask[t, i]:
                total = total + (local(i, x, t) - x)
        x = x + lr / m * total
        xs.append(x.copy())
    return xs


def fedavg_known(x0, mask, local, *, probs, lr=1.0):
    """FedAvg with known participation probabilities (Perazzone et al. 2022): weights 1 / p_i^t."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    for t in range(T):
        total = np.zeros_like(x)
        for i in range(m):
            if mask[t, i]:
                total = total + (local(i, x, t) - x) / probs[t, i]
        x = x + lr / m * total
        xs.append(x.copy())
    return xs


def gfedavg(x0, mask, local, *, lr=1.0, amplification=10.0, period=100):
    """Generalized FedAvg with amplified updates (Wang and Ji 2022)."""
    x, mask, T, _ = _begin(x0, mask)
    xs = [x.copy()]
    anchor = x.copy()
    counter = 0
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            total = np.zeros_like(x)
            for i in A:
                total = total + (local(i, x, t) - x)
            x = x + lr / len(A) * total
        counter += 1
        if counter == period:
            x = anchor + amplification * (x - anchor)
            anchor = x.copy()
            counter = 0
        xs.append(x.copy())
    return xs


def fedau(x0, mask, local, *, lr=1.0, cutoff=50):
    """FedAU (Wang and Ji 2024): weights are mean participation intervals, cut off at a maximum."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    S = [0 for _ in range(m)]
    M = [0 for _ in range(m)]
    omega = [1.0 for _ in range(m)]
    for t in range(T):
        total = np.zeros_like(x)
        for i in range(m):
            if mask[t, i]:
                total = total + omega[i] * (local(i, x, t) - x)
        x = x + lr / m * total
        # The interval that ends in this round enters omega only from the next round on.
        for i in range(m):
            S[i] += 1
            if mask[t, i] or S[i] == cutoff:
                omega[i] = float(S[i]) if M[i] == 0 else (M[i] * omega[i] + S[i]) / (M[i] + 1)
                M[i] += 1
                S[i] = 0
        xs.append(x.copy())
    return xs


def interval_weights(x0, mask, local, *, lr=1.0, power=0.5, cutoff=50, longest=1.0, least=0.0):
    """The weighted mean of the progress, with weights that are powers of FedAU's mean intervals.

    With least > 0 rounds whose weights sum to less than least m make a shorter step. With longest > 1 it is
    extrapolated as in FedExP (Jhunjhunwala and others, ICLR 2023), with the same weights.
    """
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    waited = [0] * m  # rounds since the last recorded interval ended
    recorded = [[] for _ in range(m)]
    for t in range(T):
        there = [i for i in range(m) if mask[t, i]]
        weights = {i: np.mean(recorded[i] or [1.0]) ** power for i in there}
        if there:
            moved = {i: local(i, x, t) - x for i in there}
            total = sum(weights.values())
            mean = sum(weights[i] * moved[i] for i in there) / total
            squares = sum(weights[i] * np.sum(moved[i] ** 2) for i in there) / total
            eta = min(max(1.0, squares / (2 * np.sum(mean**2))), longest)
            x = x + lr * eta * mean * total / max(total, least * m)
        for i in range(m):
            waited[i] += 1
            if mask[t, i] or waited[i] == cutoff:
                recorded[i].append(waited[i])
                waited[i] = 0
        xs.append(x.copy())
    return xs


def interval_extrapolation(x0, mask, local, *, power=1.0, longest=10.0, least=1.0, **parameters):
    return interval_weights(x0, mask, local, power=power, longest=longest, least=least, **parameters)


def decayed_memory(x0, mask, local, *, lr=1.0, decay=0.9, power=1.0, cutoff=50):
    """The weighted mean of a table of last updates."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    waited = [0] * m
    recorded = [[] for _ in range(m)]
    table = {}  # client -> (round, weight, update)
    for t in range(T):
        there = [i for i in range(m) if mask[t, i]]
        for i in there:
            omega = np.mean(recorded[i] or [1.0])
            table[i] = t, (decay + (1 - decay) * omega) ** power, local(i, x, t) - x
        if there:
            weights = {i: decay ** (t - since) * u for i, (since, u, _) in table.items()}
            x = x + lr * sum(weights[i] * table[i][2] for i in table) / sum(weights.values())
        for i in range(m):
            waited[i] += 1
            if mask[t, i] or waited[i] == cutoff:
                recorded[i].append(waited[i])
                waited[i] = 0
        xs.append(x.copy())
    return xs


def f3ast(x0, mask, local, *, lr=1.0, beta=0.001, budget=10, initial_rate=1.0, tie_break=None):
    """F3AST (Ribero, Vikalo, de Veciana 2022), uniform weights; ties by tie_break(t)[i], then by index."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    r = [float(initial_rate) for _ in range(m)]
    w = 1.0 / m
    for t in range(T):
        A = _available(mask, t)
        size = len(A) if budget == 0 else min(budget, len(A))
        ties = np.zeros(m) if tie_break is None else tie_break(t)
        # Largest w^2 / r_i^2 first, that is smallest r_i; r is the estimate before this round.
        ranked = sorted((r[i], float(ties[i]), i) for i in A)
        selected = [i for _, _, i in ranked[:size]]
        for i in range(m):
            present = 1.0 if i in selected else 0.0
            r[i] = (1.0 - beta) * r[i] + beta * present
        total = np.zeros_like(x)
        for i in selected:
            total = total + w / r[i] * (local(i, x, t) - x)
        x = x + lr * total
        xs.append(x.copy())
    return xs


def mifa(x0, mask, local, *, lr=1.0, start="zero", store="delta", local_lr=None):
    """MIFA (Gu et al. 2021): every round applies the mean of the last update of every client."""
    assert start in ("zero", "wait")
    assert store in ("delta", "delta_over_lr")
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    memory = [np.zeros_like(x) for _ in range(m)]
    seen = [False for _ in range(m)]
    for t in range(T):
        scale = local_lr(t) if store == "delta_over_lr" else 1.0
        for i in range(m):
            if mask[t, i]:
                memory[i] = (local(i, x, t) - x) / scale
                seen[i] = True
        # While waiting, x is still x^0, so every entry of the table is computed there.
        if start == "zero" or all(seen):
            total = np.zeros_like(x)
            for i in range(m):
                total = total + memory[i]
            x = x + lr * scale * (total / m)
        xs.append(x.copy())
    return xs


def fedvarp(x0, mask, local, *, lr=1.0, empty="skip"):
    """FedVARP (Jhunjhunwala et al. 2022); empty: a round without clients is skipped or applies y_bar."""
    assert empty in ("skip", "memory")
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    y = [np.zeros_like(x) for _ in range(m)]
    y_bar = np.zeros_like(x)
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            delta = {i: local(i, x, t) - x for i in A}
            innovation = np.zeros_like(x)
            for i in A:
                innovation = innovation + (delta[i] - y[i])
            v = y_bar + innovation / len(A)
            x = x + lr * v
            for i in A:
                y[i] = delta[i]
            total = np.zeros_like(x)
            for i in range(m):
                total = total + y[i]
            y_bar = total / m
        elif empty == "memory":
            x = x + lr * y_bar
        xs.append(x.copy())
    return xs


def scaffold(x0, mask, local, *, steps, local_lr, lr=1.0):
    """SCAFFOLD (Karimireddy et al. 2020), option II."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    c = np.zeros_like(x)
    c_local = [np.zeros_like(x) for _ in range(m)]
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            delta_x = np.zeros_like(x)
            delta_c = np.zeros_like(x)
            c_plus = {}
            for i in A:
                y = local(i, x, t, drift=c - c_local[i])
                c_plus[i] = c_local[i] - c + (x - y) / (steps * local_lr(t))
                delta_x = delta_x + (y - x)
                delta_c = delta_c + (c_plus[i] - c_local[i])
            x = x + lr / len(A) * delta_x
            c = c + delta_c / m
            for i in A:
                c_local[i] = c_plus[i]
        xs.append(x.copy())
    return xs


def amplified_scaffold(x0, mask, local, *, steps, local_lr, lr=1.0, amplification=1.5, period=100):
    """Amplified SCAFFOLD (Crawshaw and Liu 2024): controls and amplification change at window ends only."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    anchor = x.copy()
    c = np.zeros_like(x)
    c_local = [np.zeros_like(x) for _ in range(m)]
    gradients = [[] for _ in range(m)]
    counter = 0
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            total = np.zeros_like(x)
            for i in A:
                drift = c - c_local[i]
                y = local(i, x, t, drift=drift)
                gradients[i].append((x - y) / (steps * local_lr(t)) - drift)
                total = total + (y - x)
            x = x + lr / len(A) * total
        counter += 1
        if counter == period:
            x = anchor + amplification * (x - anchor)
            anchor = x.copy()
            for i in range(m):
                if len(gradients[i]) > 0:
                    c_local[i] = sum(gradients[i]) / len(gradients[i])
            c = sum(c_local) / m
            gradients = [[] for _ in range(m)]
            counter = 0
        xs.append(x.copy())
    return xs


def fedpbc(x0, mask, local, *, lr=1.0):
    """FedPBC (Xiang et al. 2023): all clients train every round, the available ones synchronise."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    x_local = [x.copy() for _ in range(m)]
    for t in range(T):
        for i in range(m):
            x_local[i] = x_local[i] + lr * (local(i, x_local[i], t) - x_local[i])
        A = _available(mask, t)
        if len(A) > 0:
            total = np.zeros_like(x)
            for i in A:
                total = total + x_local[i]
            x = total / len(A)
            for i in A:
                x_local[i] = x.copy()
        xs.append(x.copy())
    return xs


def echo(x0, mask, local, *, lr=1.0, cap=0.0):
    """FedAvg from the server's model, progress times rounds missed, over m; a counter runs while a client is absent."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    missed = [1 for _ in range(m)]
    for t in range(T):
        total = np.zeros_like(x)
        for i in range(m):
            if mask[t, i]:
                factor = min(missed[i], cap) if cap > 0 else missed[i]
                total = total + factor * (local(i, x, t) - x)
                missed[i] = 1
            else:
                missed[i] += 1
        x = x + lr / m * total
        xs.append(x.copy())
    return xs


def debiased_fedavg(x0, mask, local, *, lr=1.0):
    """Debiasing FedAvg (Sun et al. 2025) with the weight 1 / (m frequency so far) on the progress."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    for t in range(T):
        total = np.zeros_like(x)
        for i in range(m):
            if mask[t, i]:
                frequency = np.mean(mask[: t + 1, i])
                total = total + (local(i, x, t) - x) / (m * frequency)
        x = x + lr * total
        xs.append(x.copy())
    return xs


def _fedau_weights(mask, cutoff):
    """omega_i of every round, by FedAU's counters."""
    T, m = mask.shape
    omega = np.ones((T + 1, m))
    for i in range(m):
        S = M = 0
        for t in range(T):
            S += 1
            omega[t + 1, i] = omega[t, i]
            if mask[t, i] or cutoff == S:
                omega[t + 1, i] = (M * omega[t, i] + S) / (M + 1)
                M, S = M + 1, 0
    return omega


def fedstale_known(x0, mask, local, *, probs, lr=1.0, beta=0.5):
    """FedStale (Rodio and Neglia 2024) with a table h of all clients at the server; empty rounds are skipped."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    h = np.zeros((m, len(x)))
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            delta = {i: local(i, x, t) - x for i in A}
            v = beta * np.mean(h, axis=0)
            for i in A:
                v = v + (delta[i] - beta * h[i]) / (m * probs[t, i])
            x = x + lr * v
            for i in A:
                h[i] = delta[i]
        xs.append(x.copy())
    return xs


def fedstale(x0, mask, local, *, lr=1.0, beta=0.5, cutoff=50):
    """FedStale with FedAU's estimates of 1/p."""
    probs = 1.0 / _fedau_weights(np.asarray(mask, dtype=bool), cutoff)
    return fedstale_known(x0, mask, local, probs=probs, lr=lr, beta=beta)


def fedlaavg(x0, mask, local, *, local_lr, lr=1.0, budget=0, tie_break=None):
    """FedLaAvg (Yan et al. 2020): latest gradient sums of all clients; selected longest ago, selected first."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    latest = np.zeros((m, len(x)))
    selected = [-1 for _ in range(m)]
    for t in range(T):
        A = _available(mask, t)
        ties = np.zeros(m) if tie_break is None else tie_break(t)
        ranked = sorted((selected[i], float(ties[i]), i) for i in A)
        for _, _, i in ranked[: budget or m]:
            latest[i] = (x - local(i, x, t)) / local_lr(t)
            selected[i] = t
        x = x - lr * local_lr(t) * np.mean(latest, axis=0)
        xs.append(x.copy())
    return xs


def mimic(x0, mask, local, *, lr=1.0):
    """MimiC (Sun, Mao, Zhang 2023): g + v_last - g_last of each available client, averaged."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    g_last = np.zeros((m, len(x)))
    v_last = np.zeros((m, len(x)))
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            g = {i: x - local(i, x, t) for i in A}
            v = sum(g[i] + v_last[i] - g_last[i] for i in A) / len(A)
            x = x - lr * v
            for i in A:
                g_last[i], v_last[i] = g[i], v
        xs.append(x.copy())
    return xs


def focus(x0, mask, local, *, steps, local_lr, lr=1.0):
    """FOCUS (Ying, Li, Yang 2025) with the mean gradient of a visit; the sum y of all of them drives the server."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    g_prev = np.zeros((m, len(x)))
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            for i in A:
                end = local(i, x, t, drift=-g_prev[i])
                g_prev[i] = (x - end) / (steps * local_lr(t)) + g_prev[i]
            y = np.sum(g_prev, axis=0)
            x = x - lr * steps / m * local_lr(t) * y
        xs.append(x.copy())
    return xs


def _staleness_weight(staleness, weighting, power, slope, grace):
    if weighting == "polynomial":
        return (1.0 + staleness) ** (-power)
    if weighting == "hinge":
        return 1.0 if staleness <= grace else 1.0 / (slope * (staleness - grace) + 1.0)
    return 1.0


def fedasync(x0, mask, local, *, lr=1.0, alpha=0.6, weighting="polynomial", power=0.5, slope=10.0, grace=4.0):
    """FedAsync (Xie et al. 2019): the mean over the arrivals of a round of (1 - alpha_i) x + alpha_i x_i."""
    x, mask, T, m = _begin(x0, mask)
    xs, versions = [x.copy()], [x.copy()]
    downloaded = [0 for _ in range(m)]
    for t in range(T):
        A = _available(mask, t)
        mixed = []
        for i in A:
            a = alpha * _staleness_weight(len(versions) - 1 - downloaded[i], weighting, power, slope, grace)
            mixed.append((1 - a) * x + a * local(i, versions[downloaded[i]], t))
        if len(A) > 0:
            x = x + lr * (np.mean(mixed, axis=0) - x)
            versions.append(x.copy())
        for i in A:
            downloaded[i] = len(versions) - 1
        xs.append(x.copy())
    return xs


def fedbuff(x0, mask, local, *, lr=1.0, buffer=10, weighting="polynomial", power=0.5, slope=10.0, grace=4.0):
    """FedBuff (Nguyen et al. 2022): a list of weighted progress, averaged and emptied when it is long enough."""
    x, mask, T, m = _begin(x0, mask)
    xs, versions, held = [x.copy()], [x.copy()], []
    downloaded = [0 for _ in range(m)]
    for t in range(T):
        A = _available(mask, t)
        for i in A:
            start = versions[downloaded[i]]
            w = _staleness_weight(len(versions) - 1 - downloaded[i], weighting, power, slope, grace)
            held.append(w * (local(i, start, t) - start))
        if len(A) > 0 and len(held) >= buffer:
            x = x + lr * np.mean(held, axis=0)
            versions.append(x.copy())
            held = []
        for i in A:
            downloaded[i] = len(versions) - 1
        xs.append(x.copy())
    return xs


def ace(x0, mask, local, *, lr=1.0):
    """ACE (Chang et al. 2025): the mean of a table of the latest updates, at every arrival; the start is stale."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    table = np.zeros((m, len(x)))
    start = [x.copy() for _ in range(m)]
    for t in range(T):
        A = _available(mask, t)
        for i in A:
            table[i] = local(i, start[i], t) - start[i]
        if len(A) > 0:
            x = x + lr * np.mean(table, axis=0)
        for i in A:
            start[i] = x.copy()
        xs.append(x.copy())
    return xs


def ca2fl(x0, mask, local, *, lr=1.0):
    """CA2FL (Wang et al. 2024): the mean of cached updates, plus the calibrated progress of the arrivals."""
    x, mask, T, m = _begin(x0, mask)
    xs = [x.copy()]
    h = np.zeros((m, len(x)))
    start = [x.copy() for _ in range(m)]
    for t in range(T):
        A = _available(mask, t)
        if len(A) > 0:
            delta = {i: local(i, start[i], t) - start[i] for i in A}
            v = np.mean(h, axis=0) + np.mean([delta[i] - h[i] for i in A], axis=0)
            x = x + lr * v
            for i in A:
                h[i] = delta[i]
                start[i] = x.copy()
        xs.append(x.copy())
    return xs


LITERAL = {
    "fedswe": fedswe,
    "fedawe": fedawe,
    "fedavg": fedavg,
    "fedavg_all": fedavg_all,
    "fedavg_known": fedavg_known,
    "gfedavg": gfedavg,
    "fedau": fedau,
    "f3ast": f3ast,
    "mifa": mifa,
    "fedvarp": fedvarp,
    "scaffold": scaffold,
    "amplified_scaffold": amplified_scaffold,
    "fedpbc": fedpbc,
    "fedswe_variant": fedswe,
    "bounded_fedswe": fedswe,
    "interval_weights": interval_weights,
    "interval_extrapolation": interval_extrapolation,
    "decayed_memory": decayed_memory,
    "echo": echo,
    "debiased_fedavg": debiased_fedavg,
    "fedstale": fedstale,
    "fedstale_known": fedstale_known,
    "fedlaavg": fedlaavg,
    "mimic": mimic,
    "focus": focus,
    "fedasync": fedasync,
    "fedbuff": fedbuff,
    "ace": ace,
    "ca2fl": ca2fl,
}
