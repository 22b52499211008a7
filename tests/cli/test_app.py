"""The tree of commands: loaded when needed, extended by other packages, completed by the shell."""

import re
import subprocess
import sys

import pytest

import fedswe as package
from fedswe.cli.app import COMMANDS, LazyCommand, commands
from tests.cli.command import fedswe, process


# what is imported ------------------------------------------------------------------------------------------
def imported(code, *words):
    """The modules that are loaded after some code in a new process."""
    script = f"import sys\nsys.argv = ['fedswe', *{list(words)!r}]\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


MAIN = "from fedswe.cli import main\ntry: main()\nexcept SystemExit as end: assert not end.code"


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["reproduce", "--profiles"],
        ["theory", "mixing", "--help"],
        ["data", "list"],
        ["list"],
        ["show", "fedswe"],
    ],
    ids=" ".join,
)
def test_answers_without_torch(words):
    modules = imported(MAIN, *words)
    assert "fedswe.cli.app" in modules
    assert not modules & {"torch", "matplotlib"}


def test_a_command_imports_no_other():
    assert not imported(MAIN, "--version") & {"fedswe.cli.run", "fedswe.cli.compare"}
    assert "fedswe.cli.gym" not in imported(MAIN, "run", "--help")


def test_the_package_imports_its_public_names_when_they_are_used():
    assert not imported("import fedswe; fedswe.__version__") & {"torch", "pydantic", "numpy"}
    assert {"torch", "fedswe.experiment.runner"} <= imported("import fedswe; fedswe.run")
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018


@pytest.mark.parametrize("panel", COMMANDS)
def test_every_command_has_a_help_in_its_panel(panel, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    assert f" {panel} " in fedswe(monkeypatch, capsys, "--help")[1]
    for name, target in COMMANDS[panel].items():
        line = LazyCommand(f"fedswe.cli.{target}", panel).summary().partition("\n")[0]
        assert len(line) > 10
        *group, last = name.split(".")
        assert f" {last} " in fedswe(monkeypatch, capsys, *group, "--help")[1]
        code, text, _ = fedswe(monkeypatch, capsys, *group, last, "--help")
        assert (code, line in text) == (0, True)


def test_there_are_at_most_25_commands():
    def count(command):
        return sum(map(count, getattr(command, "commands", {}).values())) or 1

    assert count(commands()) <= 25


shown = pytest.mark.filterwarnings("always::fedswe.errors.FedsweWarning")  # not raised, as elsewhere in the tests


# commands of other packages --------------------------------------------------------------------------------
@pytest.fixture
def published(tmp_path, monkeypatch):
    """A package `plants` whose commands are found through its entry points."""

    def publish(points, **modules):
        info = tmp_path / "plants-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plants\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[fedswe.commands]\n" + "".join(f"{point}\n" for point in points))
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(tmp_path)

    return publish


FUNCTION = '''
"""Not this line."""
from fedswe.errors import FedsweError

def grow(metres: int = 1) -> int:
    """Grow a tree."""
    if metres < 0:
        raise FedsweError("trees do not shrink: give a positive number")
    print("tall" * metres)
    return metres  # no exit code
'''
APP = """
import typer
app = typer.Typer(help="Two tools for the garden.")

@app.command()
def rake() -> None:
    print("raked")

@app.command()
def dig() -> None:
    print("dug")
"""


@shown
@pytest.mark.parametrize("name", ["run", "theory.bias", "run.fast", "theory"])
def test_a_name_that_is_taken_is_ignored_with_a_warning(name, published, monkeypatch, capsys):
    published([f"{name} = plants_grow:grow"], plants_grow=FUNCTION)
    code, out, err = fedswe(monkeypatch, capsys, "theory", "bias", "--help")
    assert code == 0
    assert "--horizon" in out
    assert err.startswith(f"warning: the command {name} of the package plants is ignored: ")
    assert err.count("\n") == 1


def test_a_function_is_a_command(published, monkeypatch, capsys):
    published(["grow = plants_grow:grow"], plants_grow=FUNCTION)
    assert "Grow a tree." in fedswe(monkeypatch, capsys, "--help")[1]
    assert fedswe(monkeypatch, capsys, "grow", "--metres", "2") == (0, "talltall\n", "")
    code, _, err = fedswe(monkeypatch, capsys, "grow", "--metres", "-1")
    assert (code, err) == (2, "error: trees do not shrink: give a positive number\n")


def test_an_app_is_a_group(published, monkeypatch, capsys):
    published(["tools = plants_app:app"], plants_app=APP)
    assert "Two tools for the garden." in fedswe(monkeypatch, capsys, "--help")[1]
    assert fedswe(monkeypatch, capsys, "tools", "dig") == (0, "dug\n", "")
    text = fedswe(monkeypatch, capsys, "tools", "--help")[1]
    assert "rake" in text
    assert "--install-completion" not in text


def test_a_dot_places_a_command_in_a_group(published, monkeypatch, capsys):
    published(["theory.grow = plants_in:grow", "garden.grow = plants_in:grow"], plants_in=FUNCTION)
    for group in ("theory", "garden"):
        assert "Grow a tree." in fedswe(monkeypatch, capsys, group, "--help")[1]
        assert fedswe(monkeypatch, capsys, group, "grow") == (0, "tall\n", "")
    assert "Commands of the package plants." in fedswe(monkeypatch, capsys, "--help")[1]
    assert "mixing" in fedswe(monkeypatch, capsys, "theory", "--help")[1]


@pytest.mark.parametrize(
    ("target", "text", "reason"),
    [
        ("plants_broken:grow", "import no_such_module\n", "No module named 'no_such_module'"),
        ("plants_broken:grow", "raise SystemExit('stop')\n", "SystemExit: stop"),
        ("plants_broken:shrink", FUNCTION, "has no attribute 'shrink'"),
        ("plants_broken:grow", "grow = 3\n", "neither a function nor a Typer app"),
        ("plants_absent:grow", "", "No module named 'plants_absent'"),
    ],
)
def test_a_broken_command_gets_one_line_when_it_is_asked_for(target, text, reason, published, monkeypatch, capsys):
    published([f"grow = {target}"], plants_broken=text)
    code, out, err = fedswe(monkeypatch, capsys, "--help")
    assert (code, err) == (0, "")
    assert re.search(r"grow +the command grow cannot be loaded", out)
    code, out, err = fedswe(monkeypatch, capsys, "grow")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err
    assert err.endswith("repair or uninstall the package plants\n")


# terminals and shells --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fedswe the", {"theory"}),
        ("fedswe theory st", {"staleness"}),
        ("fedswe run --r", {"--resume"}),
        ("fedswe show fedav", {"fedavg", "fedavg_all", "fedavg_known"}),
        ("fedswe show si", {"sine"}),
        ("fedswe show qua", {"quadratic"}),
        ("fedswe data fetch c", {"cifar10", "cinic10"}),
    ],
)
def test_the_shell_completes(words, expected, monkeypatch):
    monkeypatch.setenv("_FEDSWE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert set(process(stdout=subprocess.PIPE, text=True).communicate()[0].split()) == expected
