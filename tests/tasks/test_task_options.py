"""Two groups, held-out data, augmentation per batch, border colour, last layer, normalisation on the device."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedswe import run
from fedswe.availability import Alternating
from fedswe.core import keys
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import Experiment, populate
from fedswe.tasks import Digits, Npz, Quadratic
from fedswe.tasks.batches import Augment
from fedswe.tasks.data_set import DataSet, resident
from fedswe.tasks.partition import dirichlet_shares, grouped_shares, partition, realised_shares, two_groups
from tests import problems
from tests.stacked import assert_same_as_alone


def parts_of(problem):
    return [problem.samples.part(i).tolist() for i in range(problem.m)]


# two groups ----------------------------------------------------------------------------------------------


def test_within_a_group_the_cut_is_the_dirichlet_one():
    labels = np.random.default_rng(1).integers(0, 10, 3000)
    owners = two_groups(8, 10)
    shares = grouped_shares(np.random.RandomState(3), 0.3, owners)
    rng = np.random.RandomState(3)
    both = [dirichlet_shares(rng, 0.3, 4, 5) for _ in range(2)]
    np.testing.assert_array_equal(shares[:4, :5], both[0])
    np.testing.assert_array_equal(shares[4:, 5:], both[1])
    first = np.flatnonzero(labels < 5)
    alone = [first[part] for part in partition(labels[first], both[0])]
    for got, want in zip(partition(labels, shares, owners), alone, strict=False):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("clients", [12, 13])
def test_groups_are_those_of_alternating_availability(clients):
    task = Digits(clients=clients, alpha=1.0, partition="two_groups")
    problem, schedule = populate(Experiment(task=task, availability=Alternating(period=10)))
    labels = problem.data.y_train.numpy()
    for window, classes in ((0, range(5)), (5, range(5, 10))):
        there = np.flatnonzero(schedule.prob(window) > 0)
        assert len(there)
        held = np.concatenate([np.array(parts_of(problem)[i]) for i in there])
        assert set(labels[held]) == set(classes)
    assert problem.realised.shape == problem.drawn.shape == (clients, 10)


# held-out data -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dirichlet", "two_groups"])
def test_nobody_gets_what_is_held_out(kind):
    task = Digits(clients=8, alpha=1.0, hold_out=0.2, partition=kind)
    problem = task.build(problems.setting())
    used = [i for part in parts_of(problem) for i in part]
    held = problem.samples._kept_back
    assert len(held) == round(0.2 * 1438)
    assert sorted([*used, *held]) == list(range(1438))
    other = task.build(replace(problems.setting(), seed=99))
    np.testing.assert_array_equal(other.samples._kept_back, held)  # the same for every seed
    np.testing.assert_allclose(
        problem.realised, realised_shares(problem.data.y_train.numpy(), [np.array(p) for p in parts_of(problem)], 10)
    )


def test_held_out_samples_are_scored_apart():
    problem = Digits(clients=5, alpha=1.0, hold_out=0.25).build(problems.setting())
    x = problem.start + 0.1 * torch.randn(len(problem.start), generator=torch.Generator().manual_seed(1)).double()
    scores = problem.evaluate(x)
    images, labels = problem.data.x_train, problem.data.y_train
    held = torch.as_tensor(problem.samples._kept_back)
    given_ = torch.tensor(sorted(i for part in parts_of(problem) for i in part))
    for name, rows in (("train", given_), ("held_out", held)):
        logits = problem.network.logits(x, images[rows])
        assert scores[f"{name}_loss"] == pytest.approx(float(F.cross_entropy(logits, labels[rows])))
        assert scores[f"{name}_accuracy"] == pytest.approx(float((logits.argmax(1) == labels[rows]).double().mean()))
    assert "held_out_loss" not in problems.digits(5).evaluate(x)


# augmentation --------------------------------------------------------------------------------------------


def test_the_unit_of_augmentation_reaches_the_batches():
    image, batch = (
        Digits(clients=5, alpha=1, crop=1, augment=unit).build(problems.setting()).draw(torch.arange(5), 0, 3, 16)
        for unit in ("image", "batch")
    )
    assert torch.equal(image.index, batch.index)
    assert (batch.augment.shift_x == batch.augment.shift_x[:, :, :1]).all()
    assert not (image.augment.shift_x == image.augment.shift_x[:, :, :1]).all()


def test_a_black_border_is_padding_before_normalisation():
    raw = torch.rand(6, 3, 7, 5, generator=torch.Generator().manual_seed(1)).double()
    mean, std = torch.tensor([0.4, 0.5, 0.3]).double(), torch.tensor([0.2, 0.1, 0.3]).double()

    def normalise(x):
        return (x - mean[:, None, None]) / std[:, None, None]

    change = Augment(torch.tensor([0, 1, -2, 2, -1, 0]), torch.tensor([0, -1, 2, 1, 0, -2]), torch.tensor([0, 1] * 3))
    want = normalise(change.apply(raw))
    torch.testing.assert_close(change.apply(normalise(raw), -mean / std), want)
    still = Augment(*(torch.zeros(6, dtype=torch.int32) for _ in range(3)))
    assert torch.equal(still.apply(raw, -mean / std), raw)


def colour_npz(folder):
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 256, (120, 8, 8, 3), dtype=np.uint8), np.arange(120) % 4
    np.savez(folder / "colour.npz", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20])
    return str(folder / "colour.npz"), x


def test_the_border_of_a_task(tmp_path):
    file, x = colour_npz(tmp_path)
    for border, want in (("mean", np.zeros(3)), ("black", -x.mean((0, 1, 2)) / x.std((0, 1, 2)))):
        problem = Npz(file=file, clients=4, alpha=10, model="cnn", crop=2, border=border).build(problems.setting())
        np.testing.assert_allclose(problem.border.numpy(), want, rtol=1e-6)
        batch = next(iter(problem.draw(torch.arange(4), 0, 1, 8)))
        inputs, _ = problem._inputs(batch)
        moved = batch.augment.shift_y > 0
        assert moved.any()
        bottom = inputs[moved][:, :, -1].numpy()  # [images, channels, width]
        np.testing.assert_allclose(bottom, np.broadcast_to(want[:, None], bottom.shape), rtol=1e-6)


@pytest.mark.parametrize("label", [np.inf, 1e18, np.uint64(2**63), 10**6])
def test_a_label_that_is_no_class_is_refused(label, tmp_path):
    """Each would be cast to another number, or ask for as many outputs."""
    x, y = np.zeros((8, 2)), np.array([0, 1] * 4, dtype=np.asarray(label).dtype)
    y[3] = label
    np.savez(tmp_path / "labels.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(FedsweError, match=r"one class per sample|NaN or infinity"):
        Npz(file=str(tmp_path / "labels.npz"), clients=2).build(problems.setting())


# networks and normalisation ------------------------------------------------------------------------------


def test_kaiming_in_the_last_layer_too():
    def start(kind):
        return Digits(clients=2, alpha=10, model="mlp", last_layer=kind).build(problems.setting())

    default, kaiming = start("default"), start("kaiming")
    last = 64 * 10 + 10
    assert torch.equal(default.start[:-last], kaiming.start[:-last])
    assert float(default.start[-10:].abs().min()) > 0
    assert float(kaiming.start[-10:].abs().max()) == 0
    weight = kaiming.start[-last:-10]
    assert abs(float(weight.std()) * (64 / 2) ** 0.5 - 1) < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bytes_are_normalised_as_torchvision_does(dtype):
    x = np.random.default_rng(0).integers(0, 256, (2500, 3, 4, 4), dtype=np.uint8)
    x.flags.writeable = False  # as a memory-mapped file is
    y = np.arange(2500) % 10
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    data = DataSet(x, y, x[:10], y[:10], mean, std)
    got = resident(data, dtype, torch.device("cpu"))
    want = torch.tensor(x).to(dtype).div(255)
    want = want.sub(torch.tensor(mean, dtype=dtype)[:, None, None]).div(torch.tensor(std, dtype=dtype)[:, None, None])
    assert torch.equal(got.x_train, want)
    assert torch.equal(got.x_test, want[:10])
    assert got.x_train.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(data.black, -np.array(mean) / std)


# together ------------------------------------------------------------------------------------------------


def test_defaults_are_the_plain_partition_and_the_plain_padding():
    problem = Digits(clients=9, alpha=0.5, crop=1, flip=True).build(problems.setting())
    labels = problem.data.y_train.numpy()
    shares = dirichlet_shares(keys.generator(problems.SEED, "partition"), 0.5, 9, 10)
    assert parts_of(problem) == [part.tolist() for part in partition(labels, shares)]
    assert torch.equal(problem.border, torch.zeros(1).double())
    batch = next(iter(problem.draw(torch.arange(9), 0, 1, 16)))
    inputs, _ = problem._inputs(batch)
    assert torch.equal(inputs, batch.augment.apply(problem.data.x_train[batch.index]))


def test_runs_with_different_options_train_as_one_stack_as_they_do_alone(tmp_path):
    file, _ = colour_npz(tmp_path)
    common = ["rounds=3", "task.name=npz", f"task.file={file}", "task.clients=4", "task.alpha=10", "task.crop=1"]
    options = ["dtype=float64", "task.augment=batch", "task.border=black", "task.hold_out=0.2"]
    options += ["task.partition=two_groups", "task.last_layer=kaiming"]
    together = assert_same_as_alone([load(None, [*common, "dtype=float64", word]) for word in options], 1e-9)
    assert len({history.last["server_train_loss"] for history in together}) == len(options)  # each changes something


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 1, "partition": "two_groups"}, "at least 2 clients"),
        *[({"hold_out": fraction}, "hold_out must be") for fraction in (-0.1, 1.0, float("nan"))],
        ({"clients": 1400, "alpha": 0.1}, r"client \d+ has no data \(.*\): lower task.clients or task.alpha, or"),
        ({"clients": 1439}, "there are 1438 training samples for 1439 clients: lower task.clients"),
        ({"clients": 10**9}, "there are 1438 training samples for 1000000000 clients: lower task.clients"),
    ],
)
def test_options_that_are_refused_at_once(options, message):
    with pytest.raises(FedsweError, match=message):
        Digits(**options).build(problems.setting())


@pytest.mark.parametrize("text", ["", "# nobody\n"])
def test_a_file_without_centers_is_one_line(tmp_path, text):
    (tmp_path / "centers.csv").write_text(text)
    with pytest.raises(FedsweError, match=r"task.centers is empty: give one row per client"):
        run(Experiment(rounds=1, task=Quadratic(centers_file=str(tmp_path / "centers.csv"))))
