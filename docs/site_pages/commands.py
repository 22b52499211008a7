"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from fedswe.cli.app import LazyCommand, LazyGroup, commands
from site_pages.markdown import code, page, table

INTRO = "Every command with its arguments and options; `fedswe COMMAND --help` prints the same."


def pages() -> dict[str, str]:
    parts = [text for path, command in _leaves(commands(), ("fedswe",)) for text in _section(path, command)]
    return {"commands.md": page("Commands", INTRO, *parts)}


def _leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, LazyCommand):
        command = command.load()
    if isinstance(command, LazyGroup):
        for name, inner in command.commands.items():
            yield from _leaves(inner, (*path, name))
    else:
        yield path, command


def _section(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    name = " ".join(path)
    context = click.Context(command, info_name=name)
    yield f"## {name}"
    yield f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield _plain(command.help)
    arguments = [(code(_name(p, context)), _plain(getattr(p, "help", ""))) for p in command.params if _argument(p)]
    options = [
        (_switches(p), _plain(p.help), _default(p, context))
        for p in command.params
        if isinstance(p, click.Option) and not p.hidden
    ]
    if arguments:
        yield table(["argument", "meaning"], arguments)
    if options:
        yield table(["option", "meaning", "default"], options)


def _argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def _name(parameter: click.Parameter, context: click.Context) -> str:
    return parameter.make_metavar(context)


def _switches(option: click.Option) -> str:
    names = ", ".join(code(name) for name in [*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {code((option.metavar or option.type.name).upper())}"


def _default(option: click.Option, context: click.Context) -> str:
    value = option.get_default(context, call=False)
    return "" if value in (None, False, (), [], "") or callable(value) else code(value)


def _plain(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n")).replace("<", "&lt;")
