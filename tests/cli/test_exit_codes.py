"""The exit codes of docs/running.md#exit-codes."""

import shlex

import pytest

from fedswe.cli import doctor
from tests.cli.command import fedswe

EXAMPLES = [
    (0, "fedswe list"),
    (1, "fedswe doctor"),
    (2, "fedswe run runds=5"),
    (2, "fedswe run examples/none.toml"),
    (2, "fedswe export nowhere"),
]


@pytest.mark.parametrize(("code", "example"), EXAMPLES)
def test_examples(code, example, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    if example == "fedswe doctor":  # on a machine where something is broken
        monkeypatch.setattr(doctor, "_checks", lambda: [("broken", "disk", "full", "make room")])
    assert fedswe(monkeypatch, capsys, *shlex.split(example)[1:])[0] == code


def test_a_fault_of_this_package_has_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_checks", dict.popitem)  # raises in a file of the package
    monkeypatch.setattr("fedswe.plugins.NAME_USED", {})  # other tests of this process have used classes of their own
    with pytest.raises(TypeError):  # which Python prints, and ends with code 1
        fedswe(monkeypatch, capsys, "doctor")
