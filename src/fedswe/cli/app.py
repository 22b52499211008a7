"""The commands: a table of names and functions; a module is imported when its command runs or its help is shown.

Packages add commands with entry points of the group `fedswe.commands`. The value is a function with Typer annotations,
a Typer app or a Click command. A dot in the name places the command in a group: `theory.figure`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast

import click
import typer
from typer.core import TyperGroup

from fedswe import __version__
from fedswe.errors import FedsweError, require, suggestion, warn

GROUPS = {
    "data": "List, download and verify the official files of the data sets.",
    "theory": "The paper's quantities for your clients: connectivity, staleness, bias. See docs/theory.md.",
    "flower": "Look at the store of a federation in Flower, and change it. See docs/flower.md.",
}
COMMANDS = {
    "run": "fedswe.cli.run:run_command",
    "compare": "fedswe.cli.compare:compare_command",
    "gym": "fedswe.cli.gym:gym_command",
    "export": "fedswe.cli.export:export_command",
    "plot": "fedswe.cli.look:plot_command",
    "watch": "fedswe.cli.look:watch_command",
    "report": "fedswe.cli.look:report_command",
    "list": "fedswe.cli.list_show:list_command",
    "show": "fedswe.cli.list_show:show_command",
    "doctor": "fedswe.cli.doctor:doctor_command",
    "data.list": "fedswe.cli.data:list_command",
    "data.fetch": "fedswe.cli.data:fetch_command",
    "data.verify": "fedswe.cli.data:verify_command",
    "theory.assumption": "fedswe.cli.theory:assumption",
    "theory.staleness": "fedswe.cli.theory:staleness",
    "theory.mixing": "fedswe.cli.theory:mixing",
    "theory.rates": "fedswe.cli.theory:rates",
    "theory.bias": "fedswe.cli.theory:bias",
    "availability": "fedswe.cli.availability:availability_command",
    "flower.status": "fedswe.cli.flower:status_command",
    "flower.rollback": "fedswe.cli.flower:rollback_command",
    "flower.remove": "fedswe.cli.flower:remove_command",
    "flower.replay": "fedswe.cli.flower:replay_command",
}
ENTRY_POINTS = "fedswe.commands"


def execute() -> int:
    """Run the command that the arguments of this process name; its exit code."""
    try:
        code = commands()(prog_name="fedswe", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        raise FedsweError(_usage(error)) from None


def _usage(error: click.ClickException) -> str:
    """A mistake in the arguments in one line."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    if isinstance(error, click.NoSuchOption):
        hint = ""
        if any(parameter.name == "settings" for parameter in context.command.params):
            hint = f"settings are KEY=VALUE, e.g. {_key(error.option_name.lstrip('-'))}=3"
        hint = suggestion(error.option_name, error.possibilities or [], hint)
        message = f"no such option {error.option_name}" + (f": {hint}" if hint else "")
    return f"{message} (see {context.command_path} --help)"


def _key(word: str) -> str:
    """The whole key that a word without a section stands for, if there is one."""
    from fedswe.experiment.configuration import keys_in_sections

    return keys_in_sections({}).get(word.replace("-", "_"), [word])[0]


def commands() -> click.Command:
    """The command `fedswe` with all its commands, none of them imported."""
    # The value that a command returns is dropped: it must not become the exit code.
    app = typer.Typer(cls=LazyGroup, no_args_is_help=True, result_callback=lambda *_, **__: None)
    app.callback(help="Federated learning when clients come and go: FedSWE and its peers.")(_root)
    root = cast(LazyGroup, typer.main.get_command(app))
    for name, target in COMMANDS.items():
        _add(root, name, target, package="")
    for point in entry_points(group=ENTRY_POINTS):
        _add(root, point.name, point.value, package=point.dist.name if point.dist else "unknown")
    return root


def _print_version(asked: bool) -> None:
    if asked:
        print(f"fedswe {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...


class LazyGroup(TyperGroup):
    """A group that reads the one-line helps of its commands when it lists them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        for command in self.commands.values():
            if isinstance(command, LazyCommand):
                command.help = summary(command.target) or f"Command of the package {command.package}."
        return super().list_commands(ctx)


class LazyCommand(click.Command):
    """Stands for a command in its group; the command itself is imported when its arguments are parsed."""

    def __init__(self, name: str, target: str, package: str) -> None:
        super().__init__(name)
        self.target, self.package = target, package

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self.load().make_context(info_name, args, parent, **extra)

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        try:
            return _command(getattr(import_module(module), attribute))
        except (Exception, SystemExit) as error:  # whatever another package's module does when it is imported
            if not self.package:
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise FedsweError(
                f"the command {self.name} cannot be loaded from {self.target} ({reason}): "
                f"repair or uninstall the package {self.package}"
            ) from None


def _add(root: LazyGroup, name: str, target: str, package: str) -> None:
    """Place a command in the tree; a name that is taken stays with its first owner, and a warning says so."""
    *path, last = name.split(".")
    group = root
    for part in path:
        help_ = GROUPS.get(part, f"Commands of the package {package}.")
        inner = group.commands.setdefault(part, LazyGroup(name=part, help=help_, no_args_is_help=True))
        if not isinstance(inner, LazyGroup):
            warn(f"the command {name} of the package {package} is ignored: {part} is a command already")
            return
        group = inner
    taken = group.commands.setdefault(last, LazyCommand(last, target, package))
    if not isinstance(taken, LazyCommand) or taken.target != target:
        warn(f"the command {name} of the package {package} is ignored: fedswe {' '.join([*path, last])} exists already")


def _command(value: object) -> click.Command:
    """The Click command of a function, a Typer app or a Click command."""
    if isinstance(value, click.Command):
        return value
    if not isinstance(value, typer.Typer):
        require(callable(value), f"{value!r} is neither a function nor a Typer app nor a Click command")
        app = typer.Typer()
        app.command()(cast(Callable[..., Any], value))
        value = app
    command = typer.main.get_command(value)
    # Completion is installed for `fedswe` as a whole, not for one of its commands.
    command.params = [p for p in command.params if p.name not in ("install_completion", "show_completion")]
    return command


def summary(target: str) -> str:
    """The first line of the docstring of `module:function`, or of the module, read without importing it."""
    module, _, attribute = target.partition(":")
    try:
        tree = ast.parse(_source(module))
    except (ImportError, OSError, SyntaxError, ValueError):
        return ""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == attribute]
    text = ast.get_docstring(functions[0] if functions else tree) or ""
    return text.partition("\n")[0]


def _source(module: str) -> str:
    package, *rest = module.split(".")
    spec = find_spec(package)  # finds a top-level package without importing it
    folders = spec.submodule_search_locations if spec else None
    places = [Path(folder, *rest) for folder in folders or []]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    if spec and spec.origin and not rest:
        files.append(Path(spec.origin))
    found = next((file for file in files if file.is_file()), None)
    return found.read_text(encoding="utf-8") if found else ""
