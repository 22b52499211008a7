"""FedSWE in one file, with numpy alone: handwritten digits, 100 clients that come and go.

    python examples/single_file.py            # about ten seconds

Algorithm 1 of the paper is the function `fedswe`; all other functions make a task for it. The package computes the same
numbers (tests/test_single_file.py) for any task and any algorithm, in batches and between machines.
"""

import numpy as np
from sklearn.datasets import load_digits

CLIENTS, CLASSES, ROUNDS = 100, 10, 200
STEPS, BATCH, RATE = 10, 32, 1.0  # s, samples per step, eta_0
K = 100  # copies of the server's model in the average


# Algorithm 1 --------------------------------------------------------------------------------------------------
def fedswe(x0, available, train, k, global_rate=1.0):
    """The server model and the client mean after every round.

    `available[t, i]` says whether client i is there in round t, `train(i, x, t)` returns its model after s local steps
    from x. A client that is not there does nothing at all: the rounds it missed are counted when it comes back.
    """
    rounds, clients = available.shape
    x = x0.copy()  # the server's model
    own = np.tile(x0, (clients, 1))  # x_i, the model that client i received last
    last = np.full(clients, -1)  # tau_i, the round in which client i was there last
    history = []
    for t in range(rounds):
        active = np.flatnonzero(available[t])
        reports = []
        for i in active:
            progress = train(i, own[i], t) - own[i]  # -G_i
            echo = t - last[i]  # rounds since its last report: 1 if it missed none
            reports.append(own[i] + global_rate * echo * progress)  # x_i^dagger
            last[i] = t
        if len(active) + k > 0:  # otherwise nothing is averaged, and the server keeps its model
            x = (np.sum(reports, axis=0) + k * x) / (len(active) + k)
        own[active] = x  # only those that were there receive the new model
        history.append((x.copy(), own.mean(axis=0)))
    return history


# The task: who has which samples, who is there when, what local training is -------------------------------------
def split_by_label(labels, rng, alpha=0.1):
    """Samples of each client: a Dirichlet draw of label shares per client, each class cut in proportion to them."""
    shares = rng.dirichlet(np.full(CLASSES, alpha), CLIENTS)
    parts = [[] for _ in range(CLIENTS)]
    for c in range(CLASSES):
        cuts = np.cumsum(shares[:, c]) / shares[:, c].sum()
        members = np.flatnonzero(labels == c)
        for i, piece in enumerate(np.split(members, (cuts[:-1] * len(members)).astype(int))):
            parts[i].extend(piece)
    spare = np.flatnonzero([len(part) == 0 for part in parts])
    for i in spare:  # a client without samples gets one from the largest
        parts[i].append(parts[int(np.argmax([len(part) for part in parts]))].pop())
    return [np.array(part) for part in parts]


def draw_availability(parts, labels, rng, gamma=0.3, period=20):
    """p_i depends on the labels of client i, and rises and falls with a sine."""
    weight = np.concatenate([rng.uniform(0, 1, CLASSES // 2), rng.uniform(0, 0.5, CLASSES // 2)])
    p = np.array([weight[labels[part]].mean() for part in parts])
    factor = gamma * np.sin(2 * np.pi * np.arange(ROUNDS) / period) + 1 - gamma
    return rng.random((ROUNDS, CLIENTS)) < factor[:, None] * p


def softmax_gradient(x, inputs, labels):
    """Of the mean cross-entropy of a linear classifier; x holds weights [10, 64] and biases [10] in a row."""
    weights, biases = x[: CLASSES * 64].reshape(CLASSES, 64), x[CLASSES * 64 :]
    scores = inputs @ weights.T + biases
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    return np.concatenate([(chances.T @ inputs).ravel(), chances.sum(axis=0)]) / len(labels)


def local_training(inputs, labels, parts, seed):
    """A function of client, model and round; the same client draws the same batches in the same round."""

    def train(i, x, t):
        rng = np.random.default_rng((seed, i, t))
        rate = RATE / np.sqrt(t / 10 + 1)
        for _ in range(STEPS):
            batch = rng.choice(parts[i], min(BATCH, len(parts[i])), replace=False)
            x = x - rate * softmax_gradient(x, inputs[batch], labels[batch])
        return x

    return train


def accuracy(x, inputs, labels):
    scores = inputs @ x[: CLASSES * 64].reshape(CLASSES, 64).T + x[CLASSES * 64 :]
    return (scores.argmax(axis=1) == labels).mean()


def task(seed=3):
    """The initial model, who is available, local training, and the test accuracy of a model."""
    rng = np.random.default_rng(seed)
    data = load_digits()
    inputs, labels = data.data / 16, data.target
    order = rng.permutation(len(labels))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    parts = split_by_label(labels[train], rng)
    available = draw_availability(parts, labels[train], rng)
    x0 = rng.normal(0, 0.01, CLASSES * 65)
    return (
        x0,
        available,
        local_training(inputs[train], labels[train], parts, seed),
        lambda x: accuracy(x, inputs[test], labels[test]),
    )


if __name__ == "__main__":
    x0, available, train, score = task()
    history = fedswe(x0, available, train, K)
    for t in range(19, ROUNDS, 20):
        server, mean = (score(x) for x in history[t])
        print(f"round {t + 1:3}  available {available[t].sum():2}  server {server:.3f}  client mean {mean:.3f}")
