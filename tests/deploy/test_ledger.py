"""Lines of a ledger are hostile until checked: whatever they hold, one line says what is wrong."""

import json
import math

import pytest

from fedswe.deploy import ledger, verify
from fedswe.errors import FedsweError
from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic
from tests.deploy.storm import in_memory
from tests.deploy.tampering import of_kind, rewrite, tables


@pytest.fixture(scope="module")
def lines():
    """Of a run with every kind of line."""
    with in_memory() as folder:
        net = Network(folder, quadratic("mifa", rounds=3, p=1.0))
        net.round([0, 1])
        net.server.change("evict", 3, "a test")
        net.server.receive(0, b"x")
        net.finish()
        net.server.release()
        yield tables(folder / "server")


def with_lines(folder, lines):
    (folder / ledger.FILE).write_text("\n".join(map(json.dumps, lines)) + "\n")
    rewrite(folder, lambda _: None)
    return folder


VALUES = [None, True, [], "x", -3, 0.5, 10**400, {"x": []}, {"01": 1}, {"1": {"x": "y"}}, [["x"]]]


@pytest.mark.parametrize("kind", ["run", "round", "evaluation", "change", "start"])
def test_a_value_of_another_type_in_any_field(scratch, lines, kind):
    original = of_kind(kind, lines)[0]
    for name in original.keys() - {"kind", "previous", "seal"}:
        numbers = (int, float) if type(original[name]) is float else type(original[name])
        wrong = [value for value in VALUES if type(value) is bool or not isinstance(value, numbers)]
        wrong += [10**400] if type(original[name]) in (int, float) else []
        wrong += [value for value in VALUES if type(value) is type(original[name]) is dict and name != "traffic"]
        for value in wrong:
            changed = json.loads(json.dumps(lines))
            of_kind(kind, changed)[0][name] = value
            with pytest.raises(FedsweError) as caught:
                ledger.read(with_lines(scratch, changed) / ledger.FILE)
            assert "\n" not in str(caught.value)
        changed = json.loads(json.dumps(lines))
        del of_kind(kind, changed)[0][name]
        with pytest.raises(FedsweError):
            ledger.read(with_lines(scratch, changed) / ledger.FILE)


@pytest.mark.parametrize("row", [{}, {"round": 0}, {"round": "nan", "seconds": 1.0}, {"round": 0, "seconds": "x"},
                                 {"round": 0, "seconds": 1, "loss": []}, {"round": 0.5, "seconds": 1}])  # fmt: skip
def test_rows_of_evaluations(scratch, lines, row):
    changed = json.loads(json.dumps(lines))
    of_kind("evaluation", changed)[0]["row"] = row
    found = verify(with_lines(scratch, changed))
    assert len(found.failures) == 1
    assert "row is not what it should be" in found.failures[0]


def test_scores_of_a_diverged_model(scratch, lines):
    changed = json.loads(json.dumps(lines))
    of_kind("evaluation", changed)[0]["row"].update(a="nan", b="-inf")
    row = ledger.read(with_lines(scratch, changed) / ledger.FILE).rows[0]
    assert (math.isnan(row["a"]), row["b"]) == (True, -math.inf)


@pytest.mark.parametrize(("version", "said"), [
    (None, "an earlier version of fedswe (format 1, this one reads 2): finish the run with that version"),
    (3, "a later version of fedswe (format 3, this one reads 2): update fedswe"),
])  # fmt: skip
def test_a_ledger_of_another_version(scratch, monkeypatch, capsys, version, said):
    title = {"run": "0" * 16, "plan": "0" * 16, "start": "0" * 32, "m": 3}
    title |= {} if version is None else {"version": version}
    (scratch / ledger.FILE).write_text(json.dumps(title) + "\n" + '{"t": 0, "merged": {}}\n')
    code, _, shown = fedswe(monkeypatch, capsys, "deploy", "status", scratch)
    assert (code, said in shown) == (2, True)
    assert said in verify(scratch).failures[0]
