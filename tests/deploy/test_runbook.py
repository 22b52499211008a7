"""What the runbook says exists: commands with their options, alarms, metrics."""

import re
import shlex
from pathlib import Path
from typing import get_args

import click
import pytest

from fedswe.cli.app import LazyCommand, LazyGroup, commands
from fedswe.deploy import ledger
from fedswe.deploy.metrics import metrics
from fedswe.deploy.monitor import Monitor
from fedswe.deploy.status import AlarmName
from tests.deploy.parts import Network, quadratic

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "runbook.md").read_text(encoding="utf-8")
PLACEHOLDERS = {"CLIENT": "3", "T": "40"}


def shown_commands():
    """All commands of the page, in blocks and in the text."""
    blocks = re.findall(r"^\$ (fedswe .*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    spans = [" ".join(span.split()) for span in re.findall(r"`(fedswe [^`]*)`", PAGE)]
    return sorted(set(blocks + spans))


@pytest.mark.parametrize("line", shown_commands())
def test_its_commands_exist_with_their_arguments(line):
    """Arguments are parsed as the command does, and nothing is run."""
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(line)][1:]
    command = commands()
    while isinstance(command, LazyGroup):
        name = words.pop(0)
        assert name in command.commands, f"there is no command {line}"
        command = command.commands[name]
    assert isinstance(command, LazyCommand)
    parsed = command.load().make_context(name, words)
    assert isinstance(parsed, click.Context)


def test_it_shows_all_that_an_operator_may_ask():
    asked = {line.split()[2] for line in shown_commands()}
    assert asked >= {"status", "pause", "resume", "stop", "evict", "admit", "leave", "join", "verify", "rollback"}


@pytest.mark.parametrize("alarm", get_args(AlarmName))
def test_every_alarm_has_a_section(alarm):
    assert f"\n### {alarm}\n" in PAGE


def test_its_metrics_exist(scratch):
    net = Network(scratch, quadratic("fedswe", m=2))
    monitor = Monitor(net.server.directory, net.deployment, ledger.read(net.server.directory / ledger.FILE))
    known = {metric.name.removeprefix("fedswe_") for metric in metrics(monitor)}
    names = PAGE[PAGE.index("Names begin with `fedswe_`:") : PAGE.index("Totals are of the run")]
    shown = {re.sub(r"\{\w+\}", "", name) for name in re.findall(r"`([a-z_{}]+)`", names)} - {"fedswe_"}
    assert len(shown) > 10
    assert shown <= known


def test_its_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        page, _, anchor = link.partition("#")
        text = (DOCS / (page or "runbook.md")).read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert not anchor or anchor in {title.lower().replace(" ", "-") for title in titles}
