"""`fedswe doctor` on machines where something is missing, broken or full."""

import json
import shutil

import pytest

from fedswe.cli import doctor
from fedswe.gym.settings import trace_files
from tests.cli.command import fedswe

MODULES = {
    "fine": "",
    "raises": "import no_such_module_anywhere",
    "exits": "import sys; print('[1, 2'); sys.exit('bye')",
    "dies": "import os; os._exit(3)",
    "later": "",  # imported after the one that dies
    "old": "",
}


@pytest.fixture
def checks(tmp_path, monkeypatch, capsys):
    """The report on a machine with small packages of these tests, by name of the check; and the exit code."""
    for name, code in MODULES.items():
        (tmp_path / f"{name}_module.py").write_text(code)
        info = tmp_path / f"{name}_module-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-module\nVersion: 1.0\n")
    damaged = tmp_path / "damaged_module-1.0.dist-info"
    damaged.mkdir()
    (tmp_path / "damaged_module.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FEDSWE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def report(*requirements, devices='print(\'{"threads": 2, "gpus": [["A", 8e10]]}\')'):
        monkeypatch.setattr(doctor, "requires", lambda name: ["typer>=0.20", *requirements])
        monkeypatch.setattr(doctor, "_DEVICES", devices)  # to import torch takes seconds
        code, out, err = fedswe(monkeypatch, capsys, "doctor", "--json")
        assert err == ""
        found = json.loads(out)
        assert found["ok"] == (code == 0)
        assert all(check["fix"] for check in found["checks"] if check["status"] == "broken")
        return code, {check["name"]: check for check in found["checks"]}

    return report


def test_broken_optional_packages_are_notes(checks):
    names = [*MODULES, "damaged", "missing"]
    code, found = checks(*(f"{name}-module{'>=2' if name == 'old' else ''}; extra == '{name}'" for name in names))
    assert code == 0
    assert found["cuda:0"]["found"] == "A, 80 GB"
    assert {name: found[f"extra {name}"]["status"] for name in names} == {
        **dict.fromkeys(names, "note"), "fine": "ok", "later": "ok",
    }  # fmt: skip
    assert "ModuleNotFoundError: No module named 'no_such_module_anywhere'" in found["extra raises"]["found"]
    assert "SystemExit: bye" in found["extra exits"]["found"]
    assert "ended with code 3" in found["extra dies"]["found"]
    assert found["extra old"]["found"] == "old-module is 1.0, not >=2"
    assert found["extra old"]["fix"] == "pip install --force-reinstall 'old-module>=2'"
    assert found["extra missing"]["fix"] == "pip install 'fedswe[missing]'"


def test_a_broken_package_that_is_needed(checks):
    code, found = checks("raises-module")
    assert code == 1
    assert found["packages"]["status"] == "broken"
    assert found["packages"]["fix"] == "pip install --force-reinstall 'raises-module'"


def test_files_of_the_current_folder_are_not_imported(checks, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "fine_module.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(elsewhere)
    _, found = checks("fine-module; extra == 'fine'")
    assert found["extra fine"]["status"] == "ok"


def test_a_torch_that_cannot_be_imported(checks, tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: cannot open\\x1b[31m')")
    code, found = checks(devices=doctor._DEVICES)
    assert code == 1
    assert found["torch"]["found"] == "cannot be used: OSError: libcudart.so: cannot open\\x1b[31m"


@pytest.mark.parametrize(("free", "status", "code"), [(5e9, "ok", 0), (5e8, "note", 0), (5e6, "broken", 1)])
def test_disk(checks, monkeypatch, free, status, code):
    usage = shutil.disk_usage("/")._replace(free=int(free))
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    ended, found = checks()
    assert (found["runs"]["status"], found["data folder"]["status"], ended) == (status, status, code)


def test_a_folder_that_cannot_be_written(checks, tmp_path):
    (tmp_path / "runs").write_text("a file")
    code, found = checks()
    assert code == 1
    assert found["runs"]["fix"] == "choose another folder with --out"


def test_data_and_traces(checks, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSWE_TRACES", str(tmp_path))
    trace_files()["fedscale"].write_text("")
    _, found = checks()
    assert found["data svhn"]["fix"] == "fedswe data fetch svhn"
    assert found["traces"]["found"] == f"fedscale of {', '.join(trace_files())} in {tmp_path}"


@pytest.mark.slow
def test_text(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = fedswe(monkeypatch, capsys, "doctor")
    assert code == 0
    assert out.splitlines()[-1] == "nothing that is needed is broken"
    assert any(line.split()[:2] == ["ok", "python"] for line in out.splitlines())
