"""Batches, gradients and scores of labelled tasks."""

from collections import OrderedDict
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedswe.errors import FedsweError
from fedswe.tasks import Digits, Npz
from fedswe.tasks.network import Network
from fedswe.tasks.networks import NETWORKS
from fedswe.tasks.problem import Setting
from tests import problems


def sizes_of(problem):
    return problem.samples.sizes(np.arange(problem.m))


def batches(problem, client, t, steps, size):
    return [b.index[0][b.weight[0] > 0].tolist() for b in problem.draw(torch.tensor([client]), t, steps, size)]


def test_a_pass_is_without_replacement():
    problem = problems.digits(10)
    client = int(sizes_of(problem).argmax())
    size, n = 16, int(sizes_of(problem)[client])
    per_pass = n // size
    drawn = batches(problem, client, 3, 2 * per_pass, size)
    for part in (drawn[:per_pass], drawn[per_pass:]):
        together = list(chain(*part))
        assert len(set(together)) == len(together) == per_pass * size
    assert drawn[:per_pass] != drawn[per_pass:]
    own = set(problem.samples.part(client).tolist())
    assert set(chain(*drawn)) <= own


def test_a_client_with_less_than_a_batch_uses_all_it_has():
    problem = problems.digits(40, alpha=0.1)
    client = int(sizes_of(problem).argmin())
    for drawn in batches(problem, client, 5, 4, 128):
        assert sorted(drawn) == sorted(problem.samples.part(client).tolist())
    weight = problem.draw(torch.tensor([client]), 5, 1, 128).weight
    assert float(weight.sum()) == pytest.approx(1.0)


def test_batches_are_keyed_by_client_and_round():
    problem = problems.digits(10)
    alone = problem.draw(torch.tensor([4]), 7, 5, 16)
    among = problem.draw(torch.tensor([1, 4, 9]), 7, 5, 16)
    for a, b in zip(alone, among, strict=True):
        assert a.index[0].tolist() == b.index[1].tolist()
    assert batches(problem, 4, 8, 1, 16) != batches(problem, 4, 7, 1, 16)


def test_a_small_client_trains_alike_in_any_company():
    """Crops go by place in the batch: each of its samples must be in the same place alone and beside a large client."""
    problem = Digits(clients=40, crop=2).build(Setting(problems.SEED, torch.float64, torch.device("cpu")))
    small, large = int(sizes_of(problem).argmin()), int(sizes_of(problem).argmax())
    n = int(sizes_of(problem)[small])
    assert n < 32 < sizes_of(problem)[large]
    x = problem.start.expand(2, -1)
    alone, among = (problem.draw(torch.tensor(who), 7, 3, 32) for who in ([small], [large, small]))
    for a, b in zip(alone, among, strict=True):
        assert a.index[0, :n].tolist() == b.index[1, :n].tolist()
        torch.testing.assert_close(problem.gradients(x[:1], a)[0], problem.gradients(x, b)[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("model", ["softmax", "mlp", "cnn"])
def test_gradients_equal_autograd_of_the_module(model):
    """Stacked, with clients of different sizes and padding, against a plain module and the mean cross-entropy."""
    problem = problems.digits(12, model, alpha=0.3)
    clients = torch.tensor([0, 5, 11, 3])
    x = problem.start + 0.1 * torch.randn(4, len(problem.start), generator=torch.Generator().manual_seed(1)).double()
    batch = next(iter(problem.draw(clients, 2, 1, 32)))
    got = problem.gradients(x, batch)
    images, labels = (problem.data.x_train, problem.data.y_train)
    module = NETWORKS[model]((1, 8, 8), 10).double()
    for row in range(4):
        torch.nn.utils.vector_to_parameters(x[row], module.parameters())
        index = batch.index[row][batch.weight[row] > 0]
        loss = F.cross_entropy(module(images[index]), labels[index])
        want = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
        torch.testing.assert_close(got[row], want, rtol=1e-9, atol=1e-11)


def test_scores():
    problem = problems.digits(5)
    scores = problem.evaluate(torch.zeros_like(problem.start))
    assert scores["train_loss"] == pytest.approx(np.log(10))
    x = torch.zeros_like(problem.start)
    x[640 + 3] = 5.0  # the bias of class 3: always answer 3
    labels = problem.data.y_test
    assert problem.evaluate(x)["test_accuracy"] == pytest.approx(float((labels == 3).double().mean()))


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    data = Digits().load()
    together = np.concatenate([data.x_train, data.x_test]).reshape(-1, 64) * 16
    mine = np.column_stack([together, np.concatenate([data.y_train, data.y_test])])
    theirs = np.column_stack([pixels, labels])
    np.testing.assert_array_equal(mine[np.lexsort(mine.T)], theirs[np.lexsort(theirs.T)])


def test_more_even_shares_are_advised_only_where_they_help(tmp_path):
    """One of two classes has a sample for every client, the other has not."""
    y = np.array([0] * 300 + [1] * 5)
    np.savez(tmp_path / "a.npz", x_train=np.ones((305, 2)), y_train=y, x_test=np.ones((305, 2)), y_test=y)
    task = Npz(file=str(tmp_path / "a.npz"), clients=40, alpha=0.01)
    with pytest.raises(FedsweError, match=r"lower task.clients or raise task.alpha, or try another seed"):
        task.build(problems.setting())
    assert replace(task, alpha=1e4).build(problems.setting()).m == 40


class Shifted(nn.Sequential):
    def forward(self, inputs):
        return super().forward(inputs) + 100.0


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(OrderedDict(flat=nn.Flatten(), hidden=nn.Linear(16, 4), relu=nn.ReLU(), out=nn.Linear(4, 2))),
        nn.Sequential(
            OrderedDict(
                conv=nn.Conv2d(1, 2, 3), relu=nn.ReLU(), pool=nn.MaxPool2d(2), flat=nn.Flatten(), out=nn.Linear(2, 2)
            )
        ),
        Shifted(nn.Flatten(), nn.Linear(16, 2)),
    ],
    ids=["named layers", "named layers with pooling", "a subclass"],
)
def test_a_network_computes_what_its_module_does(module):
    network, images = Network(module), torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network.logits(network.initial(), images), module(images))
    assert not network.logits(torch.zeros_like(network.initial()), images).ne(100.0 * isinstance(module, Shifted)).any()
    assert network.stacks == ("hidden" in dict(module.named_children()))


@pytest.mark.parametrize("dropout", [nn.Dropout(0.5), nn.Dropout2d(0.5), nn.AlphaDropout(0.5)])
def test_no_kind_of_dropout_goes_unnoticed(dropout):
    assert Network(nn.Sequential(nn.Conv2d(1, 2, 3), dropout, nn.Flatten(), nn.Linear(8, 2))).drops
