"""A client that checks a ledger runs no code of the operator who has sent it."""

import shutil
import subprocess
import sys
import tomllib

import pytest
import tomli_w

from fedswe.deploy import ledger
from fedswe.deploy.audit.verify import verify_client
from fedswe.deploy.deployment import FILE, Deployment
from fedswe.deploy.ledger_key import LedgerKey
from fedswe.errors import FedsweError
from tests.cli.command import process
from tests.deploy.parts import Network, quadratic
from tests.deploy.tampering import of_kind, rewrite

TASK = """
from dataclasses import dataclass

from fedswe.tasks import Quadratic


@dataclass(frozen=True)
class Own(Quadratic):
    data: str = ""
"""


@pytest.fixture
def sent(scratch, monkeypatch):
    """What an operator sends of a run with the task app/federation_of_test/task.py; his code is beside it and in it."""
    (scratch / "app" / "federation_of_test").mkdir(parents=True)
    (scratch / "app" / "federation_of_test" / "task.py").write_text(TASK)
    text = quadratic("fedswe", rounds=4, trail=True).dump()
    (scratch / "app" / FILE).write_text(text.replace('name = "quadratic"', 'name = "federation_of_test.task:Own"'))
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(scratch / "app"))
        net = Network(scratch, Deployment.load(scratch / "app" / FILE))
        net.finish()
        net.server.release()
    for name in [name for name in sys.modules if name.startswith("federation_of_test")]:
        del sys.modules[name]
    sent = scratch / "inbox" / "sent"
    sent.mkdir(parents=True)
    for name in (ledger.FILE, FILE):
        shutil.copy(scratch / "server" / name, sent)
    harm = f"open({str(scratch / 'harm')!r}, 'w').close()\n"
    for folder in (sent, sent.parent):
        (folder / "federation_of_test").mkdir()
        (folder / "federation_of_test" / "__init__.py").write_text(harm)
        (folder / "federation_of_test" / "task.py").write_text(harm + TASK)
        (folder / "evil.py").write_text(harm + TASK)
    return sent


def command(sent, *words):
    """As the client gives it."""
    words = ("deploy", "verify", sent, *words)
    run = process(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=sent.parents[1])
    out, err = run.communicate(timeout=300)
    return run.returncode, out, err


def test_the_task_is_taken_from_the_folder_that_the_client_names(sent, scratch):
    client = ("--client", "1", "--state", scratch / "clients")
    code, _, said = command(sent, *client)
    assert (code, said.count("\n")) == (2, 1)
    assert "federation_of_test.task:Own is not built in: name the folder in which you have its code with --app" in said
    code, said, _ = command(sent, *client, "--app", scratch / "app")
    assert (code, "reports have the bits of a replay from its data" in said) == (0, True)
    assert not (scratch / "harm").exists()


@pytest.mark.parametrize("own_key", [True, False])
def test_a_client_that_forgets_to_say_which_one_it_is(sent, scratch, monkeypatch, own_key):
    monkeypatch.setenv("FEDSWE_LEDGER_KEY", str(scratch / "key"))
    if own_key:
        LedgerKey.of_this_machine()
    code, said, error = command(sent)
    assert code == (1 if own_key else 2)
    assert ("not sealed with the key" in said) if own_key else ("with --app" in error)
    assert not (scratch / "harm").exists()


def sends(sent, **sections):
    """The operator sends another deployment.toml, and a ledger that names it."""
    table = tomllib.loads((sent / FILE).read_text())
    (sent / FILE).write_text(tomli_w.dumps({**table, **sections}))
    known = ledger.file_digest((sent / FILE).read_bytes())

    def change(lines):
        for line in of_kind("start", lines):
            line["files"][FILE] = known

    rewrite(sent, change)


@pytest.mark.parametrize("with_app", [True, False])
@pytest.mark.parametrize(
    "sections",
    [
        {"task": {"name": "./evil.py:Own"}},
        {"task": {"name": "digits", "clients": 4, "model": "evil:Own"}},
        {"algorithm": {"name": "evil:Own"}},
        {"evaluate": {"model": ["./evil.py:Own"]}},
    ],
)
def test_a_file_that_the_operator_names_is_not_run(sent, scratch, monkeypatch, sections, with_app):
    monkeypatch.chdir(sent)
    app = scratch / "app"
    (app / FILE).unlink()
    sends(sent, **sections)
    with pytest.raises(FedsweError, match="--app"):
        verify_client(sent, 1, scratch / "clients", app if with_app else None)
    assert not (scratch / "harm").exists()


def test_code_that_the_clients_own_file_names_may_be_anywhere(sent, scratch):
    (scratch / "elsewhere").mkdir()
    (scratch / "elsewhere" / "mine.py").write_text(TASK)
    text = (scratch / "app" / FILE).read_text()
    place = f"{scratch / 'elsewhere' / 'mine.py'}:Own"
    (scratch / "app" / FILE).write_text(text.replace("federation_of_test.task:Own", place))
    found = verify_client(sent, 1, scratch / "clients", scratch / "app")
    assert found.passed, found.failures
    assert found.replayed == found.reports > 0
    assert not (scratch / "harm").exists()
