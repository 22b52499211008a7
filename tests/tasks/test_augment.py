"""Crops, flips and dropout: keyed, in range, and what they say."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedswe.core import keys
from fedswe.tasks.batches import Augment, Augmentation
from fedswe.tasks.network import Network, kept
from fedswe.tasks.networks import NETWORKS, kaiming_last_layer
from tests import problems


def test_a_crop_is_a_window_of_the_padded_image():
    images = torch.arange(2 * 3 * 6 * 5.0).view(2, 3, 6, 5)
    change = Augment(torch.tensor([1, -2]), torch.tensor([-1, 2]), torch.tensor([0, 1]))
    got = change.apply(images)
    padded = F.pad(images, (2, 2, 2, 2))
    assert torch.equal(got[0], padded[0, :, 3:9, 1:6])
    assert torch.equal(got[1], padded[1, :, 0:6, 4:9].flip(2))


@pytest.mark.parametrize("unit", ["image", "batch"])
def test_offsets_and_flips_are_uniform_per_image_or_per_batch(unit):
    change = Augmentation(4, True, unit).draw(keys.bits(3, "augmentation", torch.arange(300), 5), 20, 32)
    assert change.shift_y.shape == (300, 20, 32)
    for part, values in ((change.shift_y, 9), (change.shift_x, 9), (change.flip, 2)):
        drawn = part if unit == "image" else part[:, :, 0]
        assert (part == part[:, :, :1]).all() == (unit == "batch")
        counts = np.unique(drawn.numpy(), return_counts=True)[1]
        assert len(counts) == values
        expected = drawn.numel() / values
        assert abs(counts - expected).max() < 5 * expected**0.5
    pairs = np.corrcoef(change.shift_y[:, :, 0].flatten(), change.shift_x[:, :, 0].flatten())[0, 1]
    assert abs(pairs) < 5 / 6000**0.5


def test_augmentation_changes_training_but_not_the_score():
    from fedswe.tasks import Digits

    plain, cropped = (Digits(clients=5, alpha=1, crop=c).build(problems.setting()) for c in (0, 1))
    x = plain.start + 0.1
    assert plain.evaluate(x) == cropped.evaluate(x)
    batches = [next(iter(p.draw(torch.arange(2), 0, 1, 16))) for p in (plain, cropped)]
    assert torch.equal(batches[0].index, batches[1].index)
    gradients = [p.gradients(x.repeat(2, 1), b) for p, b in zip((plain, cropped), batches, strict=True)]
    assert float((gradients[0] - gradients[1]).norm()) > 1e-3


def test_dropout_is_keyed_and_only_in_training():
    network = Network(nn.Sequential(nn.Flatten(), nn.Dropout(0.25), nn.Linear(64, 10)).double())
    x, inputs = network.initial(), torch.ones(4, 1, 8, 8, dtype=torch.float64)
    name = keys.bits(1, "dropout", 5)
    trained = network.training_logits(x, inputs, name)
    assert torch.equal(trained, network.training_logits(x, inputs, name))
    assert not torch.equal(trained, network.training_logits(x, inputs, keys.bits(1, "dropout", 6)))
    weight, bias = x[:640].view(10, 64), x[640:]
    mask = kept(name, 0, 4, 64, 0.25).double()
    torch.testing.assert_close(trained, mask @ weight.T + bias)
    torch.testing.assert_close(network.logits(x, inputs), inputs.flatten(1) @ weight.T + bias)


def test_dropout_of_all_units_leaves_nothing():
    network = Network(nn.Sequential(nn.Dropout(1.0), nn.Linear(4, 2)))
    x = network.initial()
    assert torch.equal(network.training_logits(x, torch.ones(3, 4), keys.bits(1, "dropout", 5)), x[8:].expand(3, 2))


def test_dropout_keeps_the_mean():
    mask = kept(keys.bits(1, "dropout", 5), 2, 200, 500, 0.2)
    assert set(mask.unique().tolist()) == {0.0, 1.25}
    assert abs(float(mask.mean()) - 1.0) < 5 * (0.25 / mask.numel()) ** 0.5


@pytest.mark.parametrize(
    ("name", "size"), [("svhn_cnn", 273_706), ("cifar10_cnn", 551_786), ("cinic10_cnn", 1_193_130)]
)
def test_the_papers_networks(name, size):
    torch.manual_seed(0)
    module = NETWORKS[name]((3, 32, 32), 10)
    assert len(Network(module).initial()) == size
    hidden = [layer for layer in module if isinstance(layer, nn.Conv2d | nn.Linear)][:-1]
    for layer in hidden:
        fan_in = layer.weight[0].numel()
        assert float(layer.bias.detach().abs().max()) == 0
        assert abs(float(layer.weight.detach().std()) * (fan_in / 2) ** 0.5 - 1) < 0.1
    assert float(module[-1].bias.detach().abs().max()) > 0  # the released code leaves the last layer as torch makes it
    before = [p.detach().clone() for p in module.parameters()]
    kaiming_last_layer(module)
    same = [torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True)]
    assert same == [True] * (len(same) - 2) + [False, False]
