"""Configuration: what is written can be read, and mistakes get one line."""

import re
import tomllib
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from fedswe import Experiment, Record, run
from fedswe.algorithms import FedAU, FedAWE, FedSWE, FedSWEVariant
from fedswe.availability import JoinLeave, Markov, Mask, Outages, Sampled, Sine
from fedswe.core.transforms import Adam, Clip
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import dump, experiment, load, load_text, refuse_other
from fedswe.tasks import Quadratic
from tests.algorithms import ALGORITHMS


@pytest.mark.parametrize("name", ALGORITHMS)
def test_round_trip(name):
    value = load(None, [f"algorithm.name={name}", "algorithm.lr=0.25", "task.clients=7", "availability.p=0.5"])
    assert isinstance(value.algorithm, ALGORITHMS[name])
    assert load_text(dump(value), "x") == value


def test_a_label_stands_for_a_part():
    labels = {"algorithm": "fedawe:lr=0.5:chain=[clip:5,adam]", "availability": "markov:on=0.1", "clock": "rounds"}
    value = Experiment(**labels, task="quadratic")
    assert value == Experiment(
        algorithm=FedAWE(lr=0.5, chain=(Clip(5.0), Adam())), availability=Markov(on=0.1), task=Quadratic()
    )


def test_round_trip_of_lists():
    value = Experiment(task=Quadratic(centers=[[1.0, 2.0], [3.0, 4.0]], curvature=[1.0, 2.0]))
    assert load_text(dump(value), "x") == value


def test_numbers_of_numpy_are_written_as_plain_ones():
    task = Quadratic(centers=np.eye(2), curvature=[np.float32(1), 2])
    value = Experiment(rounds=np.int64(7), algorithm=FedSWE(k=np.float64(3)), task=task)
    plain = Experiment(rounds=7, algorithm=FedSWE(k=3), task=Quadratic(centers=[[1, 0], [0, 1]], curvature=[1, 2]))
    assert load_text(dump(value), "x") == plain


def test_overrides(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('rounds = 9\n[algorithm]\nname = "fedswe"\nk = 3\n[task]\nclients = 4\n')
    value = load(file, ["algorithm.k=0", "rounds=200", "availability.name=stationary", "availability.p=[0.1,0.2]"])
    assert value.algorithm == FedSWE(k=0)
    assert (value.rounds, value.task.clients, value.availability.p) == (200, 4, [0.1, 0.2])
    # another algorithm does not inherit the parameters of the one it replaces
    assert load(file, ["algorithm.name=fedawe"]).algorithm == FedAWE()


def test_the_order_of_overrides_does_not_matter():
    words = ["algorithm.cutoff=10", "algorithm.name=fedau", "task.noise=1", "task.name=quadratic"]
    for order in permutations(words):
        value = load(None, order)
        assert (value.algorithm, value.task) == (FedAU(cutoff=10), Quadratic(noise=1))
    with pytest.raises(FedsweError, match=r"unknown key algorithm.mu of fedavg"):
        load(None, ["algorithm.mu=0.1", "algorithm.name=fedavg"])


@pytest.mark.parametrize(
    "text", ["server,ema", "[server,ema]", "[server, ema]", '["server","ema"]', "['server', 'ema']"]
)
def test_a_list_of_names_needs_no_quotes(text):
    assert load(None, [f"evaluate.model={text}"]).evaluate.model == ["server", "ema"]


def test_one_name_stands_for_a_list_of_one(tmp_path):
    (tmp_path / "a.toml").write_text('[evaluate]\nmodel = "server"\n')
    assert load(tmp_path / "a.toml").evaluate.model == ["server"]
    assert load(None, ["record.columns=consensus"]).record.columns == ["consensus"]


def test_keys_of_earlier_versions():
    """Stored results have them."""
    assert load(None, ["record.probes=consensus"]).record == Record(columns=["consensus"])
    assert load(None, ["algorithm.echo_cap=0", "algorithm.progress_over=all", "algorithm.k=2"]).algorithm == FedSWE(k=2)
    capped = load(None, ["algorithm.echo_cap=3", "algorithm.k=2"])
    assert capped.algorithm == FedSWEVariant(k=2, echo_cap=3, progress_over="all")
    assert load_text(dump(capped), "x") == capped
    words = ["algorithm.name=fedawe", "algorithm.echo_cap=3"]
    assert load(None, words).algorithm == FedSWEVariant(k=0, echo_cap=3, progress_over="all")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "a.toml").write_text("rounds = 7\n", encoding="utf-8-sig")
    assert load(tmp_path / "a.toml").rounds == 7


@pytest.mark.parametrize(
    "text",
    [
        "clip:5,adam:0.8:beta2=0.99",
        "[clip:5,adam:0.8:beta2=0.99]",
        '["clip:norm=5", {name="adam",beta1=0.8,beta2=0.99}]',
    ],
)
def test_a_chain_in_short_and_in_full(text):
    chain = (Clip(5.0), Adam(beta1=0.8, beta2=0.99))
    value = load(None, [f"local.chain={text}", f"algorithm.chain={text}"])
    assert value.local.chain == value.algorithm.chain == chain
    table = tomllib.loads(dump(value))["local"]["chain"]
    assert table[0] == {"name": "clip", "norm": 5.0}
    assert load_text(dump(value), "x") == value


def test_the_rounds_of_a_mask_are_the_default(tmp_path):
    (tmp_path / "mask.csv").write_text("1,0\n0,1\n" * 2)
    words = ["availability.name=mask", f"availability.file={tmp_path}/mask.csv", "task.name=quadratic"]
    assert load(None, words).rounds == 4
    assert load(None, [*words, "rounds=3"]).rounds == 3
    assert run(load(None, words)).history.last["round"] == 4


def test_defaults_are_the_documented_ones():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    text = re.search(r"```toml\n(.*?)```", page, re.DOTALL).group(1)
    assert load_text(text, "docs/configuration.md") == experiment({}) == Experiment()
    written, known = tomllib.loads(text), tomllib.loads(dump(Experiment()))
    assert written.keys() == {*known, "track"}  # which is written only if there is any
    for section in ("task", "local", "evaluate", "record"):
        assert written[section].keys() == known[section].keys()


def test_the_rounds_of_an_availability_are_the_default_in_python_too(tmp_path):
    (tmp_path / "mask.csv").write_text("1,0\n" * 7)
    mask = Mask(file=str(tmp_path / "mask.csv"))
    assert Experiment(availability=mask).rounds == 7
    assert Experiment(availability=mask, rounds=500).rounds == 500
    assert Experiment().rounds == 500
    assert type(Experiment().rounds) is int


def test_threads_are_no_setting_that_results_depend_on(tmp_path):
    one, two = Experiment(threads=1), Experiment(threads=2)
    refuse_other(one, two, tmp_path)
    with pytest.raises(FedsweError, match="seed = 3 there, 4 here"):
        refuse_other(one, Experiment(threads=1, seed=4), tmp_path)
    older = "\n".join(line for line in dump(Experiment()).splitlines() if not line.startswith("threads"))
    assert load_text(older, "older") == Experiment()


# a part in another -------------------------------------------------------------------------------------------
def test_an_availability_names_the_one_it_changes():
    short = load(None, ["availability.name=outages", "availability.base=sine:gamma=0.2", "availability.share=0.3"])
    assert short.availability == Outages(Sine(gamma=0.2), share=0.3)
    written = dump(short)
    assert load_text(written, "config.toml") == short
    assert '[availability.base]\nname = "sine"' in written
    nested = Sampled(JoinLeave(Markov(p=0.3)), number=3)
    assert load_text(dump(Experiment(availability=nested)), "config.toml").availability == nested
