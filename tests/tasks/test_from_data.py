"""Tasks made of a user's own model and data."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from fedswe import Experiment, FedsweError, compare, resume, run
from fedswe.algorithms import FedAvg
from fedswe.availability import Stationary
from fedswe.core.local import Local
from fedswe.errors import FedsweWarning
from fedswe.experiment.configuration import load
from fedswe.experiment.experiment import Record
from fedswe.tasks import Digits, from_data
from fedswe.tasks.networks import NETWORKS
from fedswe.tasks.problem import Setting
from tests.tasks.own_networks import SIZES, batch_norm, clients, frozen_backbone, linear, tanh, task

CPU = Setting(3, torch.float64, torch.device("cpu"))
HALF = Stationary(p=0.5)
X_Y = clients("vectors", seed=1)[2]


def scores(result):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in result.history.rows]


def trained(one, rounds=3, **settings):
    return scores(run(Experiment(rounds=rounds, dtype="float64", task=one, availability=HALF, **settings)))[-1]


def assert_the_engines_agree(one):
    assert trained(one, engine="loop") == pytest.approx(trained(one, engine="batched"), rel=1e-12)


# built-in tasks ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("partition", ["dirichlet", "two_groups", "shards", "uneven", "iid"])
@pytest.mark.parametrize("model", ["softmax", "mlp", "cnn"])
def test_the_digits_give_the_same_bits(model, partition):
    data, parting = Digits().load(), {"clients": 12, "alpha": 0.5, "partition": partition}
    sets = (data.x_train, data.y_train), (data.x_test, data.y_test)
    tasks = from_data(lambda: NETWORKS[model]((1, 8, 8), 10), *sets, **parting), Digits(model=model, **parting)
    own, built_in = (scores(run(Experiment(rounds=4, task=one, local=Local(steps=3, batch_size=16)))) for one in tasks)
    assert own == built_in


# forms of data -------------------------------------------------------------------------------------------------
class Pairs(Dataset):
    def __init__(self, samples):
        self._x, self._y = samples

    def __len__(self):
        return len(self._y)

    def __getitem__(self, i):
        return torch.as_tensor(self._x[i]), int(self._y[i])


def forms():
    each = clients("vectors")
    x, y = (np.concatenate(part) for part in zip(*each, strict=True))
    ids = np.repeat(np.array([f"hospital {i}" for i in range(len(each))]), SIZES)
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(ids[order], kind="stable")]  # any order of clients, but each client's own
    back = np.argsort(order)
    return {
        "arrays": {"train": each},
        "tensors": {"train": [(torch.as_tensor(a), torch.as_tensor(b)) for a, b in each]},
        "tensor data sets": {"train": [TensorDataset(torch.as_tensor(a), torch.as_tensor(b)) for a, b in each]},
        "data sets": {"train": [Pairs(samples) for samples in each]},
        "ids": {"train": (x, y), "clients": ids},
        "shuffled ids": {"train": (x[order][back], y[order][back]), "clients": ids[order][back]},
        "function": {"train": lambda i: each[i], "clients": len(each)},
    }


@pytest.mark.parametrize("form", list(forms()))
def test_all_forms_of_data_are_one_task(form):
    got, want = (trained(from_data(tanh, **forms()[name]), 4, local=Local(3, 16, 0.1)) for name in (form, "arrays"))
    assert got == pytest.approx(want, rel=1e-12)


def test_integers_stay_integers_and_floats_get_the_number_format_of_the_run():
    tokens, numbers = (task(name).build(CPU) for name in ("embedding", "tanh"))
    assert tokens.data.x_train.dtype == torch.int64
    assert numbers.data.x_train.dtype == torch.float64


def test_a_module_starts_where_it_is_and_a_function_by_the_seed():
    module = tanh()
    fixed, drawn = from_data(module, clients("vectors")), from_data(tanh, clients("vectors"))
    starts = [[one.build(replace(CPU, seed=seed)).start for seed in (1, 2)] for one in (fixed, drawn)]
    assert torch.equal(*starts[0])
    assert torch.equal(starts[0][0], torch.cat([p.detach().flatten() for p in module.parameters()]).double())
    assert not torch.equal(*starts[1])


@pytest.mark.parametrize("kind", ["uneven", "iid"])
def test_a_regression_can_be_divided(kind):
    x = np.random.default_rng(0).standard_normal((300, 8))
    problem = from_data(linear, (x, x[:, :2]), clients=9, partition=kind, alpha=0.2, loss="mse").build(CPU)
    sizes = problem.samples.sizes(np.arange(9))
    assert sizes.sum() == 300
    assert (sizes.max() - sizes.min() <= 1) == (kind == "iid")
    assert problem.realised is None


def test_shards_give_clients_few_classes():
    y = np.repeat(np.arange(10), 60)
    problem = from_data(lambda: nn.Linear(4, 10), (np.ones((600, 4)), y), clients=30, partition="shards").build(CPU)
    held = [len(np.unique(y[problem.samples.part(i).numpy()])) for i in range(30)]
    assert max(held) <= 2
    assert sorted(i for c in range(30) for i in problem.samples.part(c).tolist()) == list(range(600))


def test_a_large_client_changes_nothing_for_the_others():
    """It is shuffled apart from them, where it would make all of them as wide as itself."""
    sizes = [40, 10, 33, 64, 20_000, 500]
    x = np.arange(sum(sizes), dtype=np.float64)[:, None]
    owners = np.repeat(np.arange(6), sizes)
    problem = from_data(lambda: nn.Linear(1, 2), (x, owners % 2), clients=owners).build(CPU)
    together = problem.draw(torch.arange(6), 3, 5, 32)
    for i in range(6):
        alone = problem.draw(torch.tensor([i]), 3, 5, 32)
        width = alone.index.shape[2]
        assert torch.equal(together.index[i, :, :width], alone.index[0])
    orders = problem.draw(torch.tensor([4]), 3, 600, 32).index[0].flatten().tolist()
    assert len(set(orders)) == 600 * 32


# losses and scores -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("loss", "other"),
    [("mse", nn.MSELoss()), ("mse", lambda a, b: ((a - b) ** 2).mean(1)), ("huber", nn.HuberLoss(reduction="sum"))],
)
def test_losses_by_name_module_and_function_are_the_same(loss, other):
    named, given = (trained(from_data(linear, clients("regression"), loss=one)) for one in (loss, other))
    assert named == pytest.approx(given, rel=1e-12)


def test_scores_of_a_regression():
    x, y = (np.concatenate(part) for part in zip(*clients("regression"), strict=True))
    metrics = {"mae": lambda a, b: (a - b).abs().mean(1), "worst": lambda a, b: (a - b).abs().max()}
    problem = from_data(linear, clients("regression"), (x[:50], y[:50]), loss="mse", metrics=metrics).build(CPU)
    weight, bias = problem.network.parameters_at(problem.start).values()
    for name, part in (("train", slice(None)), ("test", slice(50))):
        error = x[part] @ weight.numpy().T + bias.numpy() - y[part]
        found = problem.evaluate(problem.start)
        assert found[f"{name}_loss"] == pytest.approx((error**2).mean())
        assert found[f"{name}_mae"] == pytest.approx(np.abs(error).mean())
        assert found[f"{name}_worst"] == pytest.approx(np.abs(error).max())


def test_scores_of_groups_are_those_of_their_clients_alone():
    each, names = clients("vectors"), ["rare", "often", "rare", "often", "often", "often"]
    problem = from_data(tanh, each, [(x[:3], y[:3]) for x, y in each], groups=names).build(CPU)
    found = problem.evaluate(problem.start)
    for group in ("rare", "often"):
        mine = [each[i] for i, name in enumerate(names) if name == group]
        alone = from_data(tanh, mine, tuple(np.concatenate([s[k][:3] for s in mine]) for k in (0, 1))).build(CPU)
        want = alone.evaluate(problem.start)
        assert {key: found[f"{key}_{group}"] for key in want} == pytest.approx(want)


def test_samples_that_are_loaded_can_be_scored_by_group_or_not_at_all():
    each = clients("vectors")
    both = from_data(tanh, lambda i: each[i], clients=6, groups=["a", "b"] * 3).build(CPU)
    assert list(both.evaluate(both.start)) == [f"train_{s}{g}" for g in ("", "_a", "_b") for s in ("loss", "accuracy")]
    neither = from_data(tanh, lambda i: each[i], each[0], clients=6, train_scores=False).build(CPU)
    assert list(neither.evaluate(neither.start)) == ["test_loss", "test_accuracy"]


def test_few_loaded_clients_are_kept(monkeypatch):
    monkeypatch.setattr("fedswe.tasks.client_samples._KEPT_BYTES", 10_000)
    loaded = []

    def load(client):
        loaded.append(client)
        return clients("vectors")[client]

    problem = from_data(tanh, load, clients=6).build(CPU)
    want = problem.evaluate(problem.start)
    assert sum(len(y) for _, y in problem.samples._kept.values()) < sum(SIZES) / 2
    assert problem.evaluate(problem.start) == want
    assert len(loaded) > 12


# networks --------------------------------------------------------------------------------------------------------
def test_frozen_parameters_are_neither_trained_nor_sent_but_exported():
    problem = task("frozen backbone").build(CPU)
    assert len(problem.start) == 16 * 3 + 3
    exported = problem.state_dict(problem.start + 1)
    backbone = frozen_backbone()
    assert list(exported) == list(backbone.state_dict())
    backbone.load_state_dict(exported)
    assert torch.equal(exported["1.running_mean"], torch.full((16,), 0.5, dtype=torch.float64))
    torch.testing.assert_close(exported["3.bias"], problem.network.parameters_at(problem.start)["3.bias"] + 1)


def test_a_module_with_its_own_load_state_dict_is_exported():
    class Own(nn.Linear):
        def load_state_dict(self, state):
            raise NotImplementedError

    problem = from_data(lambda: Own(8, 3), clients("vectors")).build(CPU)
    assert torch.equal(problem.state_dict(problem.start + 1)["bias"], problem.start[24:] + 1)


def test_an_exported_model_computes_what_was_scored():
    problem = task("batch normalisation").build(CPU)
    x = problem.start + 0.1
    network = batch_norm().double()
    network.load_state_dict(problem.state_dict(x))
    samples = clients("vectors", seed=1)
    inputs, labels = (torch.as_tensor(np.concatenate(part)) for part in zip(*samples, strict=True))
    with torch.no_grad():
        loss = nn.functional.cross_entropy(network.eval()(inputs), labels)
    assert problem.evaluate(x)["test_loss"] == pytest.approx(float(loss))


def test_shared_weights_are_one_parameter():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.out = nn.Embedding(20, 6), nn.Linear(6, 20, bias=False)
            self.out.weight = self.embedding.weight

        def forward(self, tokens):
            return self.out(self.embedding(tokens)).transpose(1, 2)

    problem = from_data(Tied, clients("sequences")).build(CPU)
    assert len(problem.start) == 120
    assert torch.equal(*problem.state_dict(problem.start).values())


def test_a_network_that_torch_cannot_stack_trains_one_client_at_a_time():
    class Branching(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (2.0 if float(x.sum()) > 0 else 1.0)

    with pytest.warns(FedsweWarning, match="trained one at a time"):
        one = from_data(lambda: Branching(8, 3), clients("vectors"))
    assert_the_engines_agree(one)


class Twice(nn.Module):
    """A layer with two names."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(8, 8), nn.Linear(8, 3)
        self.again = self.first

    def forward(self, x):
        return self.out(self.again(self.first(x).relu()).relu())


def test_a_layer_with_two_names_is_trained_in_every_build():
    one = from_data(Twice(), clients("vectors"))
    assert [len(one.build(CPU).start) for _ in range(2)] == [72 + 27] * 2
    assert_the_engines_agree(one)


def test_the_module_of_the_user_stays_as_it_is():
    module = batch_norm()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    one = from_data(module, clients("vectors"))
    problems = [one.build(replace(CPU, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    for problem in problems:  # neither disturbs the other
        problem.evaluate(problem.start)
        problem.gradients(problem.start[None], next(iter(problem.draw(torch.tensor([1]), 0, 1, 8))))
    assert module.training
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        assert value.dtype == before[name].dtype


def test_dense_layers_on_samples_of_several_dimensions():
    rng = np.random.default_rng(0)
    each = [(x := rng.standard_normal((size, 4, 5)), x[:, :, :2] + 1) for size in SIZES]
    one = from_data(lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2)), each, loss="mse")
    assert_the_engines_agree(one)


@pytest.mark.parametrize("name", ["tanh", "dropout", "functional dropout", "transformer"])
def test_full_gradients_are_of_every_sample_and_without_dropout(name):
    problem = task(name).build(CPU)
    gradients = problem.full_gradients(problem.start.repeat(2, 1), torch.tensor([1, 4]))
    for client, found in zip((1, 4), gradients, strict=True):
        x, samples = problem.start.clone().requires_grad_(), problem.samples.all_of(client)
        loss = problem.objective.loss(problem.network.logits(x, samples[0]), samples[1]).mean()
        torch.testing.assert_close(found, torch.autograd.grad(loss, x)[0])


def test_runs_are_stacked_only_if_their_networks_compute_the_same():
    class Cooled(nn.Linear):
        def __init__(self, temperature):
            super().__init__(8, 3)
            self.temperature = temperature

        def forward(self, x):
            return super().forward(x) / self.temperature

    hot, cold = (from_data(lambda t=t: Cooled(t), clients("vectors")).build(CPU) for t in (1.0, 0.01))
    assert hot.network.signature != cold.network.signature
    again = from_data(lambda: Cooled(1.0), clients("vectors")).build(replace(CPU, seed=9))
    assert again.network.signature == hot.network.signature


def test_a_model_that_mixes_samples_is_noticed_with_two_samples():
    class Centred(nn.Linear):
        def forward(self, x):
            return super().forward(x - x.mean(0))

    each = clients("vectors")
    one = from_data(lambda: Centred(8, 3), [(each[0][0][:2], each[0][1][:2]), *each[1:]])
    assert_the_engines_agree(one)


def test_statistics_of_instance_normalisation():
    each = clients("images")

    def make():
        norm = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
        return nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))

    found = from_data(make, each).build(CPU).state_dict(from_data(make, each).build(CPU).start)
    assert not torch.equal(found["1.running_var"], torch.ones(4, dtype=torch.float64))


def test_statistics_without_enough_samples(monkeypatch):
    each = clients("vectors")
    one = from_data(batch_norm, each, (each[0][0][:1], each[0][1][:1])).build(CPU)
    assert np.isfinite(one.evaluate(one.start)["test_loss"])  # computed from training samples
    monkeypatch.setattr("fedswe.tasks.client_samples._CALIBRATION", 1)
    few = from_data(batch_norm, lambda i: each[i], clients=6).build(CPU)
    with pytest.warns(FedsweWarning, match="no samples here for the statistics of BatchNorm"):
        few.state_dict(few.start)


def test_content_that_differs_is_another_task():
    def of_width(width):
        return from_data(lambda: nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3)), clients("vectors"))

    narrow, wide = of_width(4), of_width(40)
    assert narrow.digest != wide.digest
    assert len(narrow.build(CPU).start) < len(wide.build(CPU).start)
    assert of_width(4).digest == narrow.digest
    scored, not_scored = (
        from_data(tanh, clients("vectors"), X_Y, train_scores=flag).build(CPU) for flag in (True, False)
    )
    assert "train_loss" in scored.evaluate(scored.start)
    assert list(not_scored.evaluate(not_scored.start)) == ["test_loss", "test_accuracy"]


def test_arrays_that_a_script_changes_later_are_not_those_of_the_task():
    x, y = (part.copy() for part in clients("vectors")[2])
    problem = from_data(tanh, (x, y), clients=5, partition="iid").build(CPU)
    x *= 100
    again = from_data(tanh, (x / 100, y), clients=5, partition="iid").build(CPU)
    assert problem.evaluate(problem.start) == pytest.approx(again.evaluate(again.start))


def test_a_function_may_have_a_list_as_parameter(tmp_path):
    (tmp_path / "lists.py").write_text(
        "import numpy as np\nfrom torch import nn\nfrom fedswe.tasks import from_data\n"
        "def made(widths: list[int] = [4, 3]):\n"
        "    x = np.ones((30, 2))\n"
        "    return from_data(lambda: nn.Linear(2, sum(widths)), (x, np.arange(30) % 2), clients=3, partition='iid')\n"
    )
    words = [f"task.name={tmp_path}/lists.py:made", "task.widths=[2,3]", "availability.p=0.5"]
    assert len(load(None, words).task.build(CPU).start) == 15


# mistakes --------------------------------------------------------------------------------------------------------
class Noisy(nn.Linear):
    def forward(self, x):
        return super().forward(x) + torch.rand(1)


class Counting(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.seen = self.seen + 1
        return super().forward(x)


def changed(client, **parts):
    each = [list(samples) for samples in clients("vectors")]
    for name, value in parts.items():
        each[client]["xy".index(name)] = value
    return [tuple(samples) for samples in each]


X, Y = clients("vectors")[2]
NAN = np.where(np.arange(70)[:, None] == 7, np.nan, X)
TEXT = np.array(["a"] * 70)
REGRESSION = {"model": linear, "loss": "mse"}


def one_number():
    return nn.Linear(8, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": changed(2, x=NAN)}, r"^client 2: the inputs hold NaN or infinity"),
        ({"train": changed(2, x=X[:0], y=Y[:0])}, r"^client 2 has no samples"),
        ({"train": changed(2, y=Y[:-1])}, r"^client 2 has 70 inputs for 69 targets"),
        ({"train": changed(2, x=X[:, :5])}, r"^client 2: inputs of shape \[5\] .* elsewhere \[8\]"),
        ({"train": changed(2, y=Y + 1)}, r"^client 2: labels must be from 0 to 2, found 3"),
        ({"train": changed(2, y=Y - 1)}, r"^client 2: labels must be from 0 to .* found -1"),
        ({"train": changed(2, x=TEXT)}, r"^client 2: the inputs must be numbers, not <U1"),
        ({"train": changed(2, x=[[1, 2], [3]])}, r"^client 2: the inputs are not an array of numbers"),
        ({"train": [X, Y]}, r"^client 0: give \(inputs, targets\)"),
        ({"train": []}, r"^train is an empty list"),
        ({"train": (X, Y)}, r"^give clients: how many"),
        ({"train": (X, Y), "clients": 71}, r"^there are 70 training samples for 71 clients"),
        ({"train": (X, Y), "clients": [0, 1]}, r"^clients has 2 ids for 70 samples"),
        ({"train": (X, Y), "clients": 7, "groups": ["a"] * 7}, r"^groups needs given clients"),
        ({**REGRESSION, "train": (X, X[:, :2]), "clients": 7}, r'partition = "dirichlet" needs targets'),
        ({"train": lambda i: (X, Y)}, r"^train is a function: give the number of clients"),
        ({"train": lambda i: 1 / 0, "clients": 3}, r"^client 0: its samples cannot be loaded .*ZeroDivisionError"),
        ({"train": lambda i: X, "clients": 3}, r"^client 0: give \(inputs, targets\)"),
        ({"groups": ["a", "b"]}, r"^groups names 2 groups for 6 clients"),
        ({"test": (X[:, :3], Y)}, r"^the test set: inputs of shape \[3\] .* elsewhere \[8\]"),
        ({"test": [(X, Y)]}, r"^test is a list of 1 for 6 clients"),
        ({"loss": "mean"}, r"^unknown loss 'mean'"),
        ({"loss": lambda a, b: nn.functional.cross_entropy(a, b)}, r"one number per sample, \[4\], not shape \[\]"),
        ({"loss": lambda a, b: b.double()}, r"the loss does not depend on the outputs"),
        ({"metrics": "accuracy"}, r"^metrics must be a list"),
        ({"metrics": ["precision"]}, r"^unknown metric 'precision'"),
        ({"metrics": {"bad": lambda a, b: a}}, r"the metric bad must give one number"),
        ({"metrics": {"bad": lambda a, b: a @ b}}, r"the metric bad does not accept outputs of shape"),
        ({"model": 3}, r"the model must be a torch.nn.Module or a function"),
        ({"model": lambda: 3}, r"^the model must be a torch.nn.Module, not int"),
        ({"model": nn.Identity}, r"^the model has no parameters to train"),
        ({"model": lambda: nn.LazyLinear(3)}, r"^the model has lazy layers"),
        ({"model": lambda: nn.Linear(4, 3, device="meta")}, r"^the model has no numbers yet"),
        ({"model": lambda: nn.Linear(7, 3)}, r"^client 0: the model does not accept inputs of shape \[4, 8\]"),
        ({"model": lambda: nn.LSTM(8, 3)}, r"^client 0: the model must return one tensor, .* not tuple"),
        ({"model": lambda: Noisy(8, 3)}, r"^the model draws random numbers of its own"),
        ({"model": lambda: Counting(8, 3)}, r"^the model changes its buffer seen"),
        ({"model": tanh, "train": clients("tokens")}, r"integers stay integers: convert"),
        (REGRESSION, r"the loss does not accept outputs of shape \[4, 2\]"),
        ({"model": one_number, "loss": lambda a, b: (a - b) ** 2}, r"depends on the other"),
        (
            {"model": one_number, "loss": lambda a, b: (a[:, 0] - b) ** 2, "metrics": ["mae"]},
            r"the metric mae does not accept .* do not fit|outputs of shape \[4, 1\] do not fit targets of shape \[4\]",
        ),
        ({"test": changed(3, x=X[:33, :2])}, r"of client 3: inputs"),
        ({"train": lambda i: (X, Y), "clients": True}, r"^train is a function: give the number of clients"),
        ({"train": lambda i: (TEXT, Y), "clients": 2}, r"^client 0: the inputs must be numbers"),
        ({"model": batch_norm, "train": changed(2, x=X[:1], y=Y[:1])}, r"^client 2 has 1 sample"),
    ],
)
def test_mistakes_are_one_line_that_names_the_client(options, message):
    with pytest.raises(FedsweError, match=message) as caught:
        from_data(**{"model": tanh, "train": clients("vectors"), **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"), [({"y": Y + 1}, "labels must be from 0 to 2"), ({"x": X[:, :5]}, "inputs of shape")]
)
def test_samples_that_are_loaded_late_are_checked(wrong, message):
    each = changed(2, **wrong)
    problem = from_data(tanh, lambda i: each[i], clients=6).build(CPU)
    with pytest.raises(FedsweError, match=f"^client 2: {message}"):
        problem.evaluate(problem.start)


# directories and processes -----------------------------------------------------------------------------------------
def test_a_kept_run_is_resumed_by_the_script_that_has_the_data(tmp_path):
    def stop(t, row):
        if t == 5:
            raise KeyboardInterrupt

    value = Experiment(rounds=8, task=task("tanh"), availability=HALF, record=Record(checkpoint=2))
    with pytest.raises(KeyboardInterrupt):
        run(value, out=tmp_path / "run", watch=stop)
    assert scores(resume(tmp_path / "run"))[-1] == scores(run(value))[-1]
    assert from_data(tanh, clients("vectors")).digest != task("tanh").digest


def test_another_process_says_where_the_data_are(tmp_path):
    run(Experiment(rounds=2, task=task("tanh"), availability=HALF), out=tmp_path / "run")
    command = [sys.executable, "-m", "fedswe", "run", str(tmp_path / "run" / "config.toml"), "--out", "other"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: task: the content made by fedswe.tasks.from_data")
    assert not (tmp_path / "other").exists()


def test_a_comparison_in_two_processes_gives_the_numbers_of_one(tmp_path):
    experiments = {
        name: Experiment(rounds=6, task=task("functional dropout"), availability=HALF, algorithm=algorithm)
        for name, algorithm in (("fedavg", FedAvg()), ("damped", FedAvg(lr=0.5)))
    }
    two = compare(experiments, seeds=(1, 2), jobs=2, out=tmp_path)
    one = compare(experiments, seeds=(1, 2), jobs=1)
    assert two.scores == one.scores == ["train_loss", "train_accuracy", "test_loss", "test_accuracy"]
    assert two.summary["train_loss_mean"].tolist() == pytest.approx(one.summary["train_loss_mean"].tolist(), rel=1e-5)
