"""`fedswe doctor` on machines where something is missing or broken."""

import json

import pytest
import torch

from fedswe.cli import doctor
from tests.cli.command import fedswe


@pytest.fixture
def checks(monkeypatch, capsys):
    """The report on a machine with these requirements, by name of the check; and the exit code."""

    def report(*requirements):
        monkeypatch.setattr(doctor, "requires", lambda name: ["typer>=0.20", *requirements])
        code, out, err = fedswe(monkeypatch, capsys, "doctor", "--json")
        assert err == ""
        found = json.loads(out)
        assert found["ok"] == (code == 0)
        return code, {check["name"]: check for check in found["checks"]}

    return report


def test_optional_packages_are_notes(checks):
    code, found = checks("typer>=1000; extra == 'live'", "no-such-package>=2; extra == 'ray'")
    assert code == 0
    assert (found["typer"]["status"], found["typer (live)"]["status"]) == ("ok", "note")
    missing = found["no-such-package (ray)"]
    assert (missing["status"], missing["fix"]) == ("note", "pip install 'no-such-package>=2'")


def test_a_package_that_is_needed(checks):
    code, found = checks("numpy>=1000")
    assert code == 1
    assert found["numpy"]["status"] == "broken"
    assert found["numpy"]["found"].endswith(", >=1000 is wanted")


def test_a_torch_that_cannot_be_used(checks, monkeypatch):
    def fail():
        raise OSError("libcudart\u200d.so: cannot open\x1b[31m")

    monkeypatch.setattr(torch.cuda, "device_count", fail)
    code, found = checks()
    assert code == 1
    assert found["torch"]["found"] == "cannot be used: OSError: libcudart\u200d.so: cannot open\\x1b[31m"
