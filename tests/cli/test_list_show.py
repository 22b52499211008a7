"""fedswe list and show name and explain everything."""

import json

import pytest

from fedswe.cli.list_show import FAMILIES
from fedswe.core.footprint import Shape, _counted
from fedswe.registry import KINDS, find, names
from tests.algorithms import ALGORITHMS
from tests.cli.command import fedswe

EVERY = [name for kind in KINDS for name in names(kind)]


def test_list_names_everything(monkeypatch, capsys):
    code, text, _ = fedswe(monkeypatch, capsys, "list", "all")
    assert code == 0
    assert all(name in text for name in EVERY)
    assert "trains while unavailable" in text


def test_every_algorithm_has_one_family():
    assert sorted(" ".join(FAMILIES.values()).replace("*", "").split()) == sorted(ALGORITHMS)


@pytest.mark.parametrize("name", EVERY)
def test_show_explains(name, monkeypatch, capsys):
    code, text, _ = fedswe(monkeypatch, capsys, "show", name)
    assert code == 0
    [(kind, cls)] = find(name)
    assert cls.title.split()[0] in text
    if kind == "algorithm":
        assert "kept at" in text
        assert "Reference: " in text


def test_list_as_json(monkeypatch, capsys):
    listed = json.loads(fedswe(monkeypatch, capsys, "list", "--json")[1])
    assert {kind: list(named) for kind, named in listed.items()} == {kind: names(kind) for kind in KINDS}
    assert listed["algorithm"]["fedavg"] == ALGORITHMS["fedavg"].title


def test_show_as_json(monkeypatch, capsys):
    shown = json.loads(fedswe(monkeypatch, capsys, "show", "mifa", "--json")[1])
    assert (shown["section"], shown["name"], shown["citation"]) == ("algorithm", "mifa", ALGORITHMS["mifa"].citation)
    assert {"key": "lr", "default": 1.0, "meaning": "eta_g, the global rate"} in shown["parameters"]
    assert shown["numbers"]["kept at the server"] == "2d + 1"
    assert "numbers" not in json.loads(fedswe(monkeypatch, capsys, "show", "sine", "--json")[1])
    (base,) = json.loads(fedswe(monkeypatch, capsys, "show", "uniform_control", "--json")[1])["parameters"]
    assert base["default"] == "stationary"  # another part is shown by its name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_numbers_are_counted_without_torch_as_with_it(name):
    import torch

    without, _ = _counted(ALGORITHMS[name](), Shape((1000,), []), [])
    assert without == _counted(ALGORITHMS[name](), torch.zeros(1000), [])[0]
