"""Fine-tuning: a frozen backbone stays on every client, only the head is trained and sent.

python finetune.py
"""

import torch
from torch import nn
from torch.nn import functional as F

import fedswe
from fedswe.tasks import Digits, from_data


def pretrained(images: torch.Tensor, labels: torch.Tensor) -> nn.Sequential:
    """A small network trained on digits below 5, as if it came from elsewhere."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(network(images[labels < 5]), labels[labels < 5]).backward()
        optimizer.step()
    return network


if __name__ == "__main__":
    data = Digits().load()
    network = pretrained(torch.tensor(data.x_train, dtype=torch.float32), torch.tensor(data.y_train))
    network[1].requires_grad_(False)
    task = from_data(network, (data.x_train, data.y_train), (data.x_test, data.y_test), clients=30, partition="shards")
    result = fedswe.run(fedswe.Experiment(rounds=100, task=task))
    print(result.models["server"].numel(), "numbers per report of", sum(p.numel() for p in network.parameters()))
    before, after = (row["server_test_accuracy"] for row in (result.history.rows[0], result.history.last))
    print(f"test accuracy {before:.3f} -> {after:.3f}")
    network.load_state_dict(result.state_dict("client_mean"))  # backbone and trained head
