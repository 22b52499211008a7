"""fedswe list and show name and explain everything."""

import json

import pytest

from fedswe.algorithms import ALGORITHMS
from fedswe.availability import AVAILABILITY
from fedswe.cli import list_show
from fedswe.tasks import TASKS
from tests.cli.command import fedswe


def test_list_names_everything(monkeypatch, capsys):
    code, text, _ = fedswe(monkeypatch, capsys, "list")
    assert code == 0
    assert all(name in text for registry in (ALGORITHMS, AVAILABILITY, TASKS) for name in registry)
    assert "trains while unavailable" in text


@pytest.mark.parametrize("name", [*ALGORITHMS, *AVAILABILITY, *TASKS])
def test_show_explains(name, monkeypatch, capsys):
    code, text, _ = fedswe(monkeypatch, capsys, "show", name)
    assert code == 0
    registry = next(r for r in (ALGORITHMS, AVAILABILITY, TASKS) if name in r)
    assert registry[name].title.split()[0] in text
    if name in ALGORITHMS:
        assert "kept at" in text
        assert "Reference: " in text


def test_list_as_json(monkeypatch, capsys):
    listed = json.loads(fedswe(monkeypatch, capsys, "list", "--json")[1])
    assert {section: list(named) for section, named in listed.items()} == {
        "algorithm": list(ALGORITHMS),
        "availability": list(AVAILABILITY),
        "task": list(TASKS),
    }
    assert listed["algorithm"]["fedavg"] == ALGORITHMS["fedavg"].title


def test_show_as_json(monkeypatch, capsys):
    shown = json.loads(fedswe(monkeypatch, capsys, "show", "mifa", "--json")[1])
    assert (shown["section"], shown["name"], shown["citation"]) == ("algorithm", "mifa", ALGORITHMS["mifa"].citation)
    assert {"key": "lr", "default": 1.0, "meaning": "eta_g, the global rate"} in shown["parameters"]
    assert shown["numbers"]["kept at the server"] == "2d + 1"
    assert "numbers" not in json.loads(fedswe(monkeypatch, capsys, "show", "sine", "--json")[1])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_numbers_shown_are_those_that_the_definition_keeps_and_sends(name):
    assert list_show._NUMBERS[name] == list_show._counted(ALGORITHMS[name])
