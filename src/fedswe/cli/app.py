"""The commands: a table of names and functions; a module is imported when its command runs or a help lists it.

Packages add commands with entry points of the group `fedswe.commands`. The value is a function with Typer annotations,
a Typer app or a Click command. A dot in the name places the command in a group: `theory.mine`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

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
_EXAMPLES = (
    "fedswe run rounds=50                      a first run, on handwritten digits\n\n"
    "fedswe compare --algorithms fedavg,fedexp   two rules on the same clients\n\n"
    "fedswe availability your-log.csv          your devices: how biased, which rule"
)
COMMANDS = {  # by panel of the help: the name of a command, and its function in a module of fedswe.cli
    "Start": {
        "run": "run:run_command",
        "compare": "compare:compare_command",
        "gym": "gym:gym_command",
        "export": "export:export_command",
    },
    "Look": {
        "list": "list_show:list_command",
        "show": "list_show:show_command",
        "report": "look:report_command",
        "watch": "look:watch_command",
        "plot": "look:plot_command",
        "doctor": "doctor:doctor_command",
        "check": "check:check_command",
    },
    "Devices": {
        "availability": "availability:availability_command",
        "data.list": "data:list_command",
        "data.fetch": "data:fetch_command",
        "data.verify": "data:verify_command",
    },
    "Paper": {f"theory.{name}": f"theory:{name}" for name in ("assumption", "staleness", "mixing", "rates", "bias")},
    "Flower": {f"flower.{name}": f"flower:{name}_command" for name in ("status", "rollback", "remove", "replay")},
}


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
            from fedswe.experiment.configuration import DEFAULT, keys_in_sections

            word = error.option_name.lstrip("-").replace("-", "_")
            keys = keys_in_sections({}) | {kind: [f"{kind}.name"] for kind in DEFAULT}
            hint = f"settings are KEY=VALUE, e.g. {keys.get(word, [word])[0]}={DEFAULT.get(word, 3)}"
        hint = suggestion(error.option_name, error.possibilities or [], hint)
        message = f"no such option {error.option_name}" + (f": {hint}" if hint else "")
    return f"{message} (see {context.command_path} --help)"


def commands() -> click.Command:
    """The command `fedswe` with all its commands, none of them imported."""
    # The value that a command returns is dropped: it must not become the exit code.
    app = typer.Typer(cls=LazyGroup, no_args_is_help=True, epilog=_EXAMPLES, result_callback=lambda *_, **__: None)
    app.callback(help="Federated learning when clients come and go: FedSWE and its peers.")(lambda: None)
    root = cast(LazyGroup, typer.main.get_command(app))
    click.version_option(__version__, message="fedswe %(version)s", help="Print the version and exit.")(root)
    for panel, named in COMMANDS.items():
        for name, target in named.items():
            _add(root, name, LazyCommand(f"fedswe.cli.{target}", panel))
    for point in entry_points(group="fedswe.commands"):
        package = point.dist.name if point.dist else "unknown"
        panel = "Paper" if point.value.startswith("fedswe_paper.") else f"Of the package {package}"
        _add(root, point.name, LazyCommand(point.value, panel, package))
    return root


class LazyGroup(TyperGroup):
    """A group that imports its commands when it lists them, to have their help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        for command in self.commands.values():
            if isinstance(command, LazyCommand):
                command.help = command.summary()
        return super().list_commands(ctx)


class LazyCommand(click.Command):
    """Stands for a command in its group; the command itself is imported when its arguments are parsed."""

    def __init__(self, target: str, panel: str, package: str = "") -> None:
        super().__init__(None)
        self.target, self.rich_help_panel, self.package = target, panel, package

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self.load().make_context(info_name, args, parent, **extra)

    def summary(self) -> str:
        """The help of the command, or why there is none."""
        try:
            return self.load().help or f"Command of the package {self.package}."
        except FedsweError as error:
            return str(error)

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


def _add(root: LazyGroup, name: str, command: LazyCommand) -> None:
    """Place a command in the tree; a name that is taken stays with its first owner, and a warning says so."""
    *path, command.name = name.split(".")
    place: click.Command = root
    for part in [*path, command.name]:
        if isinstance(place, LazyGroup):
            help_ = GROUPS.get(part, f"Commands of the package {command.package}.")
            group = LazyGroup(name=part, help=help_, no_args_is_help=True, rich_help_panel=command.rich_help_panel)
            place = place.commands.setdefault(part, command if part == command.name else group)
    if getattr(place, "target", "") != command.target:
        words = " ".join([*path, command.name])
        warn(f"the command {name} of the package {command.package} is ignored: fedswe {words} exists already")


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
