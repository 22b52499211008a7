"""Columns of the history: the auxiliary sequence obeys the identity of the analysis in every engine, to 1e-10."""

import os
import signal

import numpy as np
import pytest
import torch

from fedswe import Experiment, FedsweError, Record, resume, run
from fedswe.algorithms import FedAvg, FedAWE, FedSWE
from fedswe.core.local import Local
from fedswe.engine.columns import Auxiliary, Consensus, auxiliary
from fedswe.experiment.configuration import dump, load, load_text
from tests import problems
from tests.problems import ENGINES
from tests.theory.definitions import auxiliary_innovation, mixing_matrix

CONSTANT = Local(steps=4, batch_size=8, lr=0.05, schedule="constant")
PROBES = ["consensus", "auxiliary"]


def stochastic_sums(engine, present):
    """sum_r grad l_i(x_i^(t,r)) of the clients of this round, by the plain definition; zero for the others."""
    models = engine.client_models()
    sums = torch.zeros_like(models)
    for i in np.flatnonzero(present):
        x = models[i]
        for batch in engine.problem.draw(torch.tensor([i]), engine.t, engine.local.steps, engine.local.batch_size):
            gradient = engine.problem.gradients(x[None], batch)[0]
            sums[i] += gradient
            x = x - engine.local.lr * gradient
    return sums.numpy()


def full_gradients(engine):
    return engine.problem.full_gradients(engine.client_models(), torch.arange(engine.m)).numpy()


def with_virtual(rows, server, k):
    return np.vstack([rows, np.tile(server, (k, 1))])


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("task", ["quadratic", "digits"])
def test_the_auxiliary_sequence_moves_by_gradients_and_mixing_alone(kind, k, task):
    """Z^{t+1} = (Z^t - eta_l eta_g G~^t) W^(t) for every round of a run, with W laid out in full."""
    problem = problems.quadratic(noise=0.5) if task == "quadratic" else problems.digits(m=8)
    present = problems.mask(rounds=40, m=8)[: 40 if task == "quadratic" else 15]
    algorithm = FedSWE(k=k, lr=0.7)
    engine = problems.engine(kind, algorithm, problem, present, CONSTANT)
    rate, steps = 0.05 * 0.7, 4
    longest = 0
    for here in present:
        x, server, staleness = engine.client_models().numpy(), engine.server_model().numpy(), engine.t - engine.last
        full, sums = full_gradients(engine), stochastic_sums(engine, here)
        if here.any():
            assert np.abs(sums - steps * full)[here].max() > 1e-3  # noise and drift: not a test of zeros
        z = x - rate * steps * (staleness - 1)[:, None] * full
        np.testing.assert_allclose(auxiliary(engine, x), z, atol=1e-14)
        innovation = auxiliary_innovation(here, staleness, sums, full, steps)
        columns = with_virtual(z - rate * innovation, server, k).T  # clients are columns in the paper
        expected = (columns @ mixing_matrix(here, k)).T
        engine.step()
        after = auxiliary(engine, engine.client_models().numpy())
        np.testing.assert_allclose(with_virtual(after, engine.server_model().numpy(), k), expected, rtol=0, atol=1e-10)
        # who was there has z_i = x_i; who was not has moved by one full gradient
        np.testing.assert_array_equal(after[here], engine.client_models().numpy()[here])
        np.testing.assert_allclose(after[~here], (z - rate * steps * full)[~here], atol=1e-12)
        longest = max(longest, int(staleness.max()))
    assert longest >= 9


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("algorithm", [FedSWE(k=3), FedAWE(), FedAvg()])
def test_probes_are_the_definitions(kind, algorithm):
    engine = problems.engine(kind, algorithm, problems.quadratic(), problems.mask(), CONSTANT)
    k = int(getattr(algorithm, "k", 0))
    for _ in range(25):
        engine.step()
    x, server = engine.client_models().numpy(), engine.server_model().numpy()
    everyone = with_virtual(x, server, k)
    clients = np.mean([np.sum((row - x.mean(0)) ** 2) for row in x])
    augmented = np.mean([np.sum((row - everyone.mean(0)) ** 2) for row in everyone])
    seen = Consensus().values(engine)
    assert seen == pytest.approx({"consensus_clients": clients, "consensus_augmented": augmented}, rel=1e-12)
    assert clients > 0
    assert (clients == pytest.approx(augmented)) == (k == 0)
    if isinstance(algorithm, FedSWE):
        missed = engine.t - engine.last - 1
        z = x - 0.05 * 4 * missed[:, None] * full_gradients(engine)
        all_z = with_virtual(z, server, k)
        assert Auxiliary().values(engine) == pytest.approx(
            {
                "approximation_error": np.sum((x - z) ** 2) / (8 + k),
                "consensus_auxiliary": np.mean([np.sum((row - all_z.mean(0)) ** 2) for row in all_z]),
            },
            rel=1e-12,
        )


WORDS = [
    "task.clients=8", "task.alpha=1", "rounds=24", "evaluate.every=5", "record.checkpoint=4", "local.steps=2",
    "local.schedule=constant", "algorithm.k=3", "record.trajectory=true",
]  # fmt: skip
WITH = [*WORDS, "record.columns=['auxiliary','consensus']"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_probed_run_is_the_same_run(engine, tmp_path):
    plain = run(load(None, [*WORDS, f"engine={engine}"]), tmp_path / "plain").history
    probed = run(load(None, [*WITH, f"engine={engine}"]), tmp_path / "probed").history
    for name in ("model.safetensors", "trajectory.csv"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "probed" / name).read_bytes()
    added = [c for c in probed.columns if c not in plain.columns]
    assert added == ["approximation_error", "consensus_auxiliary", "consensus_clients", "consensus_augmented"]
    assert probed.columns[-1] == "seconds"
    for column in plain.columns[:-1]:
        np.testing.assert_array_equal(plain[column], probed[column])
    for column in added:
        assert probed[column][0] == 0  # all at x^0
        assert (probed[column][1:] > 0).all()


def test_a_killed_run_resumes_with_its_probes(tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "killed"
    run(load(None, WITH), whole)
    child = os.fork()
    if child == 0:
        run(load(None, WITH), out, lambda t, _: os.kill(os.getpid(), signal.SIGKILL) if t == 14 else None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    resume(out)
    lines = [[line.rsplit(",", 1)[0] for line in (p / "history.csv").read_text().splitlines()] for p in (whole, out)]
    assert "consensus_auxiliary" in lines[0][0]
    assert lines[0] == lines[1]
    assert (whole / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["record.columns=['auxiliary']"], "set local.schedule=constant"),
        (["record.columns=['auxiliary']", "local.schedule=constant", "algorithm.name=mifa"], "fedswe and fedawe"),
        (["record.columns=['consensus','consensus']"], "one column twice"),
        (["record.columns=['consent']"], "record: unknown column 'consent': did you mean consensus?"),
        (["record.columns=3"], "record.columns must be a valid list"),
    ],
)
def test_probes_that_make_no_sense(words, message):
    with pytest.raises(FedsweError) as refused:
        load(None, words)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_probes_are_part_of_the_configuration():
    value = Experiment(record=Record(columns=["consensus"]))
    assert load_text(dump(value), "dumped") == value
    assert Experiment().record.columns == []
