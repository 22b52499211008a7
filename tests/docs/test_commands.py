"""Commands that stand in the text of the pages exist, and every command stands on a page."""

import re
import shlex

import click
import pytest

from fedswe.cli.app import LazyCommand, LazyGroup, commands
from tests.docs.blocks import PAGES, ROOT


def named(page):
    """`fedswe ...` in the text and in blocks, as words."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`(?:\.venv/bin/)?fedswe ([^`]+)`(?!`)", text)]
    lines = re.findall(r"^\$ (?:\.venv/bin/)?fedswe ([^#\n]*)", text, re.MULTILINE)
    found = [span.replace("...", "").split() for span in {*spans, *lines}]
    return [words for words in found if not re.match(r"[A-Z]+$|\w+=", words[0])]  # COMMAND, and a label of a figure


def resolved(words):
    """The command that the words name, its name and the words that are left."""
    command, path = commands(), []
    while isinstance(command, LazyGroup) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command fedswe {' '.join([*path, words[0]])}"
        command, path, words = command.commands[words[0]], [*path, words[0]], words[1:]
    return (command.load() if isinstance(command, LazyCommand) else command), path, words


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist_with_their_options(page):
    for words in named(page):
        command, path, rest = resolved(words)
        options = [p for p in command.params if isinstance(p, click.Option)]
        known = {"--help", *(name for option in options for name in [*option.opts, *option.secondary_opts])}
        for word in shlex.split(" ".join(rest).partition(" -- ")[0].replace("'", "")):
            if re.match(r"--[a-z]", word):
                assert word.partition("=")[0] in known, f"{page}: fedswe {' '.join(path)} has no {word}"


def test_every_command_stands_on_a_page():
    shown = {tuple(resolved(words)[1]) for page in PAGES for words in named(page)}
    assert {tuple(path) for path in leaves(commands(), [])} - shown == set()


def leaves(command, path):
    if isinstance(command, LazyGroup):
        for name, inner in command.commands.items():
            yield from leaves(inner, [*path, name])
    else:
        yield path
