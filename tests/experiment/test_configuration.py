"""Configuration: what is written can be read, and mistakes get one line."""

import re
import tomllib
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from fedswe import Evaluate, Experiment, Record, run
from fedswe.algorithms import MIFA, FedAU, FedAWE, FedSWE, FedSWEVariant
from fedswe.availability import JoinLeave, Markov, Mask, Outages, Sampled, Sine
from fedswe.core.local import Local
from fedswe.core.transforms import Adam, Clip
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import dump, experiment, load, load_text, refuse_other
from fedswe.tasks import Digits, Quadratic
from tests.algorithms import ALGORITHMS


@pytest.mark.parametrize("name", ALGORITHMS)
def test_round_trip(name):
    value = load(None, [f"algorithm.name={name}", "algorithm.lr=0.25", "task.clients=7", "availability.p=0.5"])
    assert isinstance(value.algorithm, ALGORITHMS[name])
    assert load_text(dump(value), "x") == value


def test_round_trip_of_lists():
    value = Experiment(task=Quadratic(centers=[[1.0, 2.0], [3.0, 4.0]], curvature=[1.0, 2.0]))
    assert load_text(dump(value), "x") == value


def test_numbers_of_numpy_are_written_as_plain_ones():
    task = Quadratic(centers=np.eye(2), curvature=[np.float32(1), 2])
    value = Experiment(rounds=np.int64(7), algorithm=FedSWE(k=np.float64(3)), task=task)
    plain = Experiment(rounds=7, algorithm=FedSWE(k=3), task=Quadratic(centers=[[1, 0], [0, 1]], curvature=[1, 2]))
    assert load_text(dump(value), "x") == plain


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"engine": "fast"}, "engine must be one of batched, loop, not 'fast'"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64, not 'float16'"),
        ({"rounds": 2.5}, "rounds must be a whole number, not 2.5"),
        ({"rounds": "5"}, "rounds must be a whole number, not '5'"),
        ({"rounds": True}, "rounds must be a whole number, not True"),
        ({"seed": None}, "seed must be a whole number, not None"),
        ({"device": 0}, "device must be text, not 0"),
        ({"algorithm": FedSWE}, r"algorithm must be an instance of Algorithm, not the class FedSWE: write FedSWE\(\)"),
        ({"task": "digits"}, "task must be an instance of Task, not 'digits'"),
        ({"local": {"lr": 1}}, "local must be an instance of Local, not {'lr': 1}"),
    ],
)
def test_a_value_of_another_type_is_refused_from_python_too(parts, message):
    with pytest.raises(FedsweError, match=message):
        Experiment(**parts)


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (MIFA, {"store": "deltas"}, "store must be one of delta, delta_over_lr, not 'deltas'"),
        (FedSWE, {"k": "3"}, "k must be a number, not '3'"),
        (FedSWE, {"chain": (Clip,)}, r"not the class Clip: write Clip\(\)"),
        (Clip, {"norm": "5"}, "norm must be a number, not '5'"),
        (Digits, {"partition": "random"}, "partition must be one of"),
        (Digits, {"clients": 2.5}, "clients must be a whole number, not 2.5"),
        (Quadratic, {"centers": [[1.0, "x"]]}, "centers must be a list, .* or None, not"),
        (Sine, {"period": None}, "period must be a whole number, not None"),
        (Sine, {"p": [0.5, "x"]}, r"p must be a number or a list, .* not \[0.5, 'x'\]"),
        (Local, {"schedule": "linear"}, "schedule must be one of inverse_sqrt, .*, not 'linear'"),
        (Local, {"lr": "fast"}, "lr must be a number, not 'fast'"),
        (Local, {"steps": 2.5}, "steps must be a whole number, not 2.5"),
        (Evaluate, {"every": "3"}, "every must be a whole number, not '3'"),
        (Evaluate, {"model": "server"}, "model must be a list, each text, not 'server'"),
        (Evaluate, {"model": [3]}, "model must be text, not 3"),
        (Record, {"trajectory": 1}, "trajectory must be True or False, not 1"),
    ],
)
def test_so_is_one_of_a_part(cls, values, message):
    with pytest.raises(FedsweError, match=message):
        cls(**values)


@pytest.mark.parametrize(
    ("cls", "names", "message"),
    [
        (Evaluate, {"model": ["server", "finest"]}, "unknown output 'finest': known are server, client_mean"),
        (Record, {"columns": ["consenus"]}, "unknown column 'consenus': did you mean consensus?"),
    ],
)
def test_names_of_outputs_and_columns_are_checked(cls, names, message):
    with pytest.raises(FedsweError, match=re.escape(message)):
        cls(**names)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clpi:5", "unknown transform 'clpi': did you mean clip?"),
        ("clip:-1", "norm must be positive, not -1"),
        ("clip:nrm=1", "unknown key local.chain.nrm of clip: did you mean norm?"),
        ("clip:1:2", "local.chain: clip takes no value '2': write key=value"),
        ("clip:much", "local.chain.norm: input should be a valid number"),
        ("3", "local.chain must be a list such as clip:5,momentum:0.9, not 3"),
        ("[3]", "local.chain: each element must be a table with a name, or NAME:VALUE, not 3"),
        ("[{norm=3}]", "local.chain: each element must be a table with a name, or NAME:VALUE, not {'norm': 3}"),
    ],
)
def test_mistakes_in_a_chain(text, message):
    with pytest.raises(FedsweError) as caught:
        load(None, [f"local.chain={text}"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_rounds_of_a_mask_are_the_default(tmp_path):
    (tmp_path / "mask.csv").write_text("1,0\n0,1\n" * 2)
    words = ["availability.name=mask", f"availability.file={tmp_path}/mask.csv", "task.name=quadratic"]
    assert load(None, words).rounds == 4
    assert load(None, [*words, "rounds=3"]).rounds == 3
    assert run(load(None, words)).history.last["round"] == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algoritm.k=1"], "unknown key algoritm: did you mean algorithm?"),
        (["lr=0.1"], "unknown key lr: did you mean local.lr or algorithm.lr?"),
        (["k=3"], "unknown key k: did you mean algorithm.k?"),
        (["cutoff=3", "algorithm.name=fedau"], "unknown key cutoff: did you mean algorithm.cutoff?"),
        (["stpes=3"], "unknown key stpes: did you mean local.steps?"),
        (["name=fedavg"], "did you mean algorithm.name or availability.name or clock.name or task.name?"),
        (["xyzzy=3"], "unknown key xyzzy: known are rounds, seed"),
        (["algorithm.kk=1"], "unknown key algorithm.kk of fedswe: did you mean k?"),
        (["algorithm.name=fedsw"], "unknown algorithm 'fedsw': did you mean fedswe?"),
        (["algorithm.name=fedawe", "algorithm.k=3"], "unknown key algorithm.k of fedawe"),
        (["task.name=shakespeare"], "unknown task 'shakespeare': known are quadratic, digits, from_data"),
        (["algorithm.k=-1"], "algorithm: k must be 0 or more, not -1"),
        (["algorithm.k=nan"], "algorithm: k must be 0 or more, not nan"),
        (["algorithm.k=many"], "algorithm.k: input should be a valid number"),
        (["algorithm.lr=0"], "algorithm: lr must be positive"),
        (["algorithm.name=fedswe_variant", "algorithm.echo_cap=0.5"], "echo_cap must be 0 (off) or at least 1"),
        (["availability.p=1.5"], "availability: p must be within [0, 1], not 1.5"),
        (["availability.p=[0.5,-0.1]"], "availability: p must be within [0, 1], not -0.1"),
        (["availability.p=often"], "availability.p"),
        (["availability.p=0"], "p is 0: no client would ever be available"),
        (["availability.p=[0.0,0.0]"], "p is 0: no client would ever be available"),
        (["availability.gamma=0.9"], "gamma must be within [0, 0.5]"),
        (["availability.name=alternating", "availability.period=5"], "period must be even"),
        (["availability.name=mask"], "availability.file is missing"),
        (["availability.name=markov", "availability.stream=legacy"], "no legacy stream"),
        (["rounds=0"], "rounds must be at least 1"),
        (["rounds=1e12"], "rounds must be at most 1000000000"),
        (["local.steps=1e12"], "local.steps must be at most 1000000"),
        (["local.batch_size=1e12"], "local.batch_size must be at most 1000000000"),
        (["rounds=2.5"], "rounds: input should be a valid integer"),
        (["seed=-1"], "seed must be from 0"),
        (["engine=fast"], "engine: input should be 'batched' or 'loop'"),
        (["dtype=float16"], "dtype: input should be 'float32' or 'float64'"),
        (["local.lr=-1"], "local: lr must be positive"),
        (["local.steps=0"], "steps must be at least 1"),
        (["local=3"], "local must be a section"),
        (["evaluate.model=[]"], "model is empty"),
        (["evaluate.model=['finest']"], "evaluate: unknown output 'finest'"),
        (["task.clients=0"], "clients must be at least 1"),
        (["task.alpha=0"], "alpha must be positive"),
        (["task.name=quadratic", "task.noise=-1"], "noise must be 0 or more"),
        (["rounds"], "overrides are section.key=value"),
        (["rounds=3", "rounds.x=1"], "rounds is a value, not a section"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(FedsweError) as caught:
        load(None, words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("rounds = [")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", tmp_path, broken, binary):
        with pytest.raises(FedsweError) as caught:
            load(path)
        assert path.name in str(caught.value)


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


@pytest.mark.parametrize(
    ("base", "says"),
    [
        ("sinus", "unknown availability 'sinus'"),
        ("sine:gamma=2", "availability.base: gamma must be within"),
        ("sine:gama=0.1", "availability.base.gama"),
        ("{gamma=0.1}", "availability.base: it must be a table with a name"),
        ("3", "availability.base"),
        ("sine:stream=legacy", "legacy"),
    ],
)
def test_a_mistake_in_the_one_it_changes_is_one_line(base, says):
    with pytest.raises(FedsweError) as raised:
        load(None, ["availability.name=outages", f"availability.base={base}"])
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
