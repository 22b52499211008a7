"""360 kinds of bad input: one line `error: ...`, exit code 2, every file as it was, and no hang."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import fedswe, process

SECONDS = 60  # a command that has not ended by then hangs

HEADER = """
from dataclasses import dataclass, field
from fedswe.algorithms import FedAvg
from fedswe.availability import Always
from fedswe.core.transforms import Transform
from fedswe.engine.columns import Column
from fedswe.engine.outputs import Output
from fedswe.tasks import Quadratic
"""

PLUGINS = """
@dataclass(frozen=True)
class Raises(FedAvg):
    def plan(self, *_):
        return 1 / 0


@dataclass(frozen=True)
class Returns(FedAvg):
    def plan(self, *_):
        return None


@dataclass(frozen=True)
class Merges(FedAvg):
    def merge(self, *_):
        raise ValueError("several\\nlines")


@dataclass(frozen=True)
class Forgets(FedAvg):
    def __post_init__(self):
        raise KeyError("absent")


@dataclass(frozen=True)
class Memory(FedAvg):
    def plan(self, *_):
        raise MemoryError


@dataclass(frozen=True)
class Needs(FedAvg):
    share: float = field(kw_only=True)
"""

MORE_PLUGINS = """
class Plain:
    pass


class NotFrozen(FedAvg):
    k: float = 1.0


@dataclass(frozen=True)
class Holds(FedAvg):
    content: object = None


@dataclass(frozen=True)
class Never(Always):
    def schedule(self, who, seed):
        raise OSError("no log")


@dataclass(frozen=True)
class Shrinks(Always):
    def schedule(self, who, seed):
        return None


@dataclass(frozen=True)
class Endless(Always):
    def rounds(self):
        return "many"


@dataclass(frozen=True)
class Loses(Quadratic):
    def build(self, setting):
        return {}["data"]


@dataclass(frozen=True)
class Nothing(Quadratic):
    def build(self, setting):
        return None


@dataclass(frozen=True)
class Turns(Transform):
    def __call__(self, *_):
        raise RuntimeError("cannot turn")


@dataclass(frozen=True)
class Shows(Output):
    def model(self, *_):
        raise IndexError("no row")


@dataclass(frozen=True)
class Counts(Column):
    def values(self, engine):
        return engine.nothing


@dataclass(frozen=True)
class Words(Column):
    def values(self, engine):
        return {"round": 1.0}
"""

FILES = {
    "good.toml": "rounds = 2\n",
    "broken.toml": "rounds = = 3\n",
    "twice.toml": "rounds = 3\nrounds = 4\n",
    "unclosed.toml": "[algorithm\nk = 1\n",
    "zero.toml": "rounds = 3\0\n",
    "binary.toml": b"\x89PNG\r\n\x1a\n\x00\xff\xfe",
    "utf16.toml": "rounds = 3\n".encode("utf-16"),
    "latin.toml": "# Gr\u00fc\u00dfe\nrounds = 3\n".encode("latin-1"),
    "bom.toml": b"\xef\xbb\xbfrounds = 0\n",
    "section.toml": "algorithm = 3\n",
    "array.toml": "[[algorithm]]\nname = 'fedavg'\n",
    "deep.toml": "[algorithm.k]\nx = 1\n",
    "value.toml": "[rounds]\nx = 1\n",
    "nan.toml": "[local]\nlr = nan\n",
    "huge.toml": f"rounds = {10**400}\n",
    "date.toml": "rounds = 2026-01-01\n",
    "unknown.toml": "[server]\nlr = 1\n",
    "typo.toml": "[local]\nlrr = 1\n",
    "chain.toml": "[local]\nchain = [{ norm = 5.0 }]\n",
    "names.toml": "[evaluate]\nmodel = [1, 2]\n",
    "nested.toml": "[availability]\np = [[0.5]]\n",
    "giant.toml": f"rounds = {'9' * 5000}\n",
    "lists.toml": f"rounds = {'[' * 3000}\n",
    "json.toml": '{"rounds": 3}\n',
    "text.npz": "x_train\n",
    "words.csv": "a,b\nc,d\n",
    "ragged.csv": "1,2\n3\n",
    "nan.csv": "1,2\nnan,3\n",
    "empty.csv": "",
    "binary.csv": b"\xff\xfe\x00\x01",
    "mine.py": HEADER + PLUGINS + MORE_PLUGINS,
    "syntax.py": "def f(:\n",
    "fails.py": "x = 1\n1 / 0\n",
    "exits.py": "import sys\nsys.exit(0)\n",
    "imports.py": "import no_such_module\n",
    "empty.py": "",
    "binary.py": b"\x00\xff\xfe",
    "notes.txt": "mine\n",
    "folder.toml/file": "",
    "folder/file": "",
    "run/config.toml": "rounds = 3\n",
    "run/run.json": "{",
    "other/config.toml": "rounds = = 3\n",
    "gone/config.toml": "[algorithm]\nname = 'fedsve'\n",
    "done/config.toml": "rounds = 3\n",
    "done/model.safetensors": "",
    "torn/config.toml": "rounds = 3\n[task]\nclients = 10\nalpha = 1.0\n",
    "torn/checkpoint.safetensors": "torn",
}

CASES = [  # a command, and a part of what it says
    tuple(line.split(" => "))
    for line in Path(__file__).with_name("bad_input.txt").read_text().splitlines()
    if not line.startswith("#")
]
LONG = {"{digits}": "9" * 5000, "{brackets}": "[" * 2000}
QUICK = ["task.clients=10", "task.alpha=1", "rounds=3"]

IN_A_PROCESS = [  # a file, an option and a class; in processes of their own, commands differ by how they end only
    "run binary.toml",
    "quick --rounds 3",
    "quick algorithm.name=./mine.py:Raises",
]


def words_of(command):
    for name, text in LONG.items():
        command = command.replace(name, text)
    first, *rest = shlex.split(command)
    if first == "quick":
        return ["run", *QUICK, *rest]
    return (
        [first, *rest, *QUICK, *([] if "--jobs" in rest else ["--jobs", "1"])] if first == "compare" else [first, *rest]
    )


def listing(folder):
    return {p: p.read_bytes() if p.is_file() else None for p in folder.rglob("*") if "__pycache__" not in p.parts}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("bad")
    for name, content in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return place


@pytest.fixture
def no_hang():
    """The exception of pytest is none that the commands catch."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize(("command", "message"), CASES, ids=[command for command, _ in CASES])
def test_one_line_and_nothing_written(command, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])  # plug-ins add their folder
    before = listing(folder)
    code, _, err = fedswe(monkeypatch, capsys, *words_of(command))
    assert (code, err.count("\n"), err[:7]) == (2, 1, "error: "), err
    assert message in err
    assert listing(folder) == before


def test_the_same_in_processes(folder):
    before = listing(folder)
    started = [
        process(*words_of(command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command in IN_A_PROCESS
    ]
    for command, one in zip(IN_A_PROCESS, started, strict=True):
        _, err = one.communicate(timeout=10 * SECONDS)
        assert (one.returncode, err.count("\n"), err[:7]) == (2, 1, "error: "), (command, err)
    assert listing(folder) == before


@pytest.mark.usefixtures("no_hang")
def test_an_error_in_a_worker_process_names_the_place_too(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ["compare", *QUICK, "--algorithms", "./mine.py:Merges", "--seeds", "1,2", "--jobs", "2"]
    code, _, err = fedswe(monkeypatch, capsys, *words, "--out", tmp_path / "out")
    assert (code, err.count("\n")) == (2, 1)
    assert "./mine.py:25: ValueError: several (in merge of Merges)" in err


def test_the_whole_traceback_on_request(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("FEDSWE_TRACEBACK", "1")
    code, _, err = fedswe(monkeypatch, capsys, "run", *QUICK, "algorithm.name=./mine.py:Raises")
    assert code == 2
    assert err.startswith("Traceback")
    assert err.splitlines()[-1] == "error: ./mine.py:13: ZeroDivisionError: division by zero (in plan of Raises)"
