"""Build the wheel, install it into a new environment outside the repository, and run every command there.

`make test-wheel`. The dependencies are those of the running environment; nothing but the build backend is downloaded.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
NEEDED = ["fedswe/py.typed", "fedswe/report/report.html", "fedswe_paper/claims.toml", "fedswe_paper/claims.md.jinja"]
QUICK = ["task.clients=10", "task.alpha=1", "rounds=2"]
# Walks through the tree of commands, so that one that a package adds is tried too.
EACH_COMMAND = """
import click, json
from fedswe.cli.app import commands

def walk(command, path):
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from walk(inner, [*path, name])
    yield path

print(json.dumps(list(walk(commands(), []))))
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fedswe-wheel-") as place:
        folder = Path(place)
        python = install(folder)
        check(python, folder)
    print("the wheel works outside the repository")


def install(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, REPOSITORY], check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    (packages,) = folder.glob("environment/lib/*/site-packages")
    # A folder named in a .pth file comes last on the path, and its own .pth files, such as that of an editable
    # installation of the repository, are not read.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for name in NEEDED:
        assert (packages / name).is_file(), f"the wheel lacks {name}"
    return python


def check(python: Path, folder: Path) -> None:
    work = folder / "work"
    work.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"OMP_NUM_THREADS": "1"}

    def output(*words: object) -> str:
        command = [str(word) for word in words]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    fedswe = python.with_name("fedswe")
    where = output(python, "-c", "import fedswe; print(fedswe.__file__)").strip()
    assert Path(where).is_relative_to(folder), f"it imports {where}"
    assert output(fedswe, "--version").startswith("fedswe ")
    for path in json.loads(output(python, "-c", EACH_COMMAND)):
        assert "Usage" in output(fedswe, *path, "--help")
    for names in json.loads(output(fedswe, "list", "--json")).values():
        for name in names:
            assert name in output(fedswe, "show", name)
    output(fedswe, "run", *QUICK, "--out", "run")
    assert (work / "run" / "model.safetensors").is_file()
    output(fedswe, "compare", *QUICK, "--algorithms", "fedswe,fedavg", "--seeds", "1,2", "--out", "comparison")
    assert (work / "comparison" / "compare.csv").is_file()
    for words in (["export", "run"], ["plot", "comparison", "--out", "figure.svg"], ["report", "comparison"]):
        output(fedswe, *words)
    assert (work / "server.safetensors").is_file()
    for example in ("own_data", "own_devices", "regression", "finetune"):
        (work / f"{example}.py").write_text((REPOSITORY / "examples" / f"{example}.py").read_text())
        output(python, f"{example}.py")
    output(fedswe, "theory", "bias", "alternating", "availability.period=20", *QUICK[:1])
    output(fedswe, "data", "list")
    output(fedswe, "reproduce", "--list")


if __name__ == "__main__":
    main()
