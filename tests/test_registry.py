"""Names to classes and back; a class that cannot be used gets one line."""

import inspect
import re
import subprocess
import sys
from dataclasses import dataclass, fields

import pytest

from fedswe import Experiment, compare, run
from fedswe.algorithms import FedAvg
from fedswe.availability import Always
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import dump, load, load_text, sources
from fedswe.registry import KINDS, find, name_of, resolve
from fedswe.tasks import Quadratic


@pytest.mark.parametrize("kind", KINDS)
def test_every_built_in_name_finds_its_class_and_back(kind):
    for name in KINDS[kind].builtin:
        cls = resolve(kind, name)
        assert name_of(kind, cls) == name
        assert (kind, cls) in find(name)
        assert cls.title


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_comment_beside_it(kind):
    """It is what `fedswe show` prints."""
    for name in KINDS[kind].builtin:
        cls = resolve(kind, name)
        source = "".join(inspect.getsource(owner) for owner in cls.__mro__ if owner.__module__.startswith("fedswe"))
        commented = re.findall(r"^    (\w+): [^\n]*?  # .+$", source, re.MULTILINE)
        assert {f.name for f in fields(cls) if f.init} <= set(commented), name


def test_values_do_not_import_torch():
    """Names are listed and configurations are read and written without waiting for torch."""
    code = """if True:
        import sys
        import fedswe.availability, fedswe.tasks, fedswe.core.keys
        from fedswe import registry
        from fedswe.registry import KINDS
        from fedswe.experiment.configuration import dump, load
        for kind in KINDS:
            assert all(registry.titles(kind).values())
        dump(load(None, ["algorithm.name=fedau", "local.chain=clip:5", "evaluate.model=ema"]))
        assert "torch" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# classes in files and modules ----------------------------------------------------------------------------

MINE = """
from dataclasses import dataclass
from beside import DEFAULT
from fedswe.algorithms import FedAvg

@dataclass(frozen=True)
class Half(FedAvg):
    share: float = DEFAULT  # of the step

@dataclass(frozen=True, kw_only=True)
class Needs(FedAvg):
    share: float
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with nothing but a user's files, as the current one."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "beside.py").write_text("DEFAULT = 0.5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("mine", "beside"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["./mine.py:Half", "mine.py:Half", "mine:Half"])
def test_a_class_is_written_as_it_was_asked_for(name, folder):
    value = load(None, [f"algorithm.name={name}", "algorithm.share=0.25"])
    assert (type(value.algorithm).__name__, value.algorithm.share) == ("Half", 0.25)
    assert f'name = "{name}"' in dump(value)
    assert load_text(dump(value), "x") == value
    assert find(name) == [("algorithm", type(value.algorithm))]


def test_a_relative_name_stays_right_in_another_directory(folder, monkeypatch):
    value = load(None, ["algorithm.name=./mine.py:Half"])
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert f'name = "{folder}/mine.py:Half"' in dump(value)
    assert load_text(dump(value), "x") == value


def test_an_instance_is_written_by_its_module(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    import mine

    value = Experiment(rounds=2, algorithm=mine.Half(share=0.1), task=Quadratic(), availability=Always())
    run(value, out=folder / "out")
    assert 'name = "mine:Half"' in (folder / "out" / "config.toml").read_text()
    assert sources(value).keys() == {"mine"}


@dataclass(frozen=True)
class InTests(FedAvg):
    pass


def test_a_class_that_cannot_be_imported_again_is_refused(folder):
    @dataclass(frozen=True)
    class Local(FedAvg):
        pass

    @dataclass(frozen=True)
    class Script(FedAvg):
        pass

    Script.__module__, Script.__qualname__ = "__main__", "Script"
    assert name_of("algorithm", InTests) == "tests.test_registry:InTests"
    for cls in (Local, Script):
        value = Experiment(rounds=1, algorithm=cls())
        assert len(run(value).history.rows) == 2  # it runs, but not into a directory
        with pytest.raises(
            FedsweError, match=rf"^the algorithm {cls.__name__} cannot be imported again, .*: move it .*$"
        ):
            run(value, out=folder / "out")
        alone, workers = (compare(value, ["fedavg", cls()], seeds=[3, 4], jobs=jobs) for jobs in (1, 2))
        assert list(alone.summary["algorithm"].unique()) == ["fedavg", cls.__name__]
        assert alone.to_csv() == workers.to_csv()
        with pytest.raises(FedsweError, match=rf"^the algorithm {cls.__name__} cannot be imported again"):
            compare(value, ["fedavg", cls()], out=folder / "out")
    assert not (folder / "out").exists()


# classes that cannot be used -----------------------------------------------------------------------------

HEAD = """from dataclasses import dataclass
from fedswe.algorithms import FedAvg
from fedswe.core.algorithm import Algorithm
"""
FROZEN = "@dataclass(frozen=True)\n"
BAD = {
    "syntax": ("def", "cannot import ./bad.py (./bad.py:4: SyntaxError: "),
    "raises": ("raise RuntimeError('one\\ntwo')", "cannot import ./bad.py (./bad.py:4: RuntimeError: one)"),
    "exits": ("import sys; sys.exit(3)", "cannot import ./bad.py (./bad.py:4: SystemExit: 3)"),
    "needs a package": ("import nowhere", "(./bad.py:4: ModuleNotFoundError: No module named 'nowhere')"),
    "not frozen": ("@dataclass\nclass Mine(FedAvg): pass", "(./bad.py:4: TypeError: cannot inherit non-frozen"),
    "another name": (FROZEN + "class Mane(FedAvg): pass", "./bad.py has no class Mine: did you mean Mane?"),
    "a function": ("def Mine(): pass", "Mine is not a class derived from fedswe.core.algorithm.Algorithm"),
    "no subclass": ("class Mine: pass", "Mine is not a class derived from fedswe.core.algorithm.Algorithm"),
    "abstract": (FROZEN + "class Mine(Algorithm): pass", "Mine is abstract: define merge, report"),
    "not a dataclass": ("class Mine(FedAvg):\n  rate: float = 1", "declares rate but is not a dataclass itself"),
    "unknown type": (
        FROZEN + "class Mine(FedAvg):\n  rule: 'Rule' = 1",
        "the type of a parameter cannot be read (NameError: name 'Rule' is not defined)",
    ),
    "constructor": (
        FROZEN + "class Mine(FedAvg):\n  def __post_init__(self): raise KeyError('rate')",
        "algorithm: Mine cannot be built (./bad.py:6: KeyError: 'rate' (in __post_init__ of Mine))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_class_that_cannot_be_used(case, folder):
    text, message = BAD[case]
    (folder / "bad.py").write_text(HEAD + text)
    with pytest.raises(FedsweError) as caught:
        load(None, ["algorithm.name=./bad.py:Mine"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


CLASH = """
from dataclasses import dataclass
from fedswe.core.transforms import Transform
from fedswe.engine.columns import Column
from fedswe.engine.outputs import Output


@dataclass(frozen=True)
class Clash(Column):
    def values(self, engine):
        return {"round": 99.0}


@dataclass(frozen=True)
class Short(Output):
    def model(self, state, run):
        return run.server_model()[:1]


@dataclass(frozen=True)
class Mixing(Transform):
    def __call__(self, v, state, x, start):
        return v.sum(), state
"""


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("record.columns=./clash.py:Clash", "Clash gives round, which the history has already"),
        ("evaluate.model=./clash.py:Short", r"output Short: a model of shape \[1\], expected is \[2\]"),
        ("local.chain=./clash.py:Mixing", r"Mixing returned a direction of shape \[\]"),
        ("algorithm.chain=./clash.py:Mixing", r"Mixing returned a direction of shape \[\]"),
    ],
)
def test_parts_that_return_something_else(word, message, tmp_path, monkeypatch):
    (tmp_path / "clash.py").write_text(CLASH)
    monkeypatch.chdir(tmp_path)
    words = ["task.name=quadratic", "task.centers=[[0.0,1.0],[1.0,0.0]]", "availability.name=always", "rounds=2", word]
    with pytest.raises(FedsweError, match=message):
        run(load(None, words))


def test_a_star_imports_the_algorithms_and_not_their_modules():
    found: dict[str, type] = {}
    exec("from fedswe.algorithms import *", found)
    names = KINDS["algorithm"].builtin
    assert found.keys() - {"__builtins__"} == {resolve("algorithm", name).__name__ for name in names}
