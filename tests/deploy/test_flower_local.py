"""What a trial stands on: supervised programs, certificates, the app that is written, and the user's mistakes."""

import io
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
import zipfile

import numpy as np
import pytest
import torch
from flwr.cli.build import build_fab_from_disk
from flwr.common.config import parse_config_args

from fedswe.cli.deploy_up import Needed, Progress, _watch
from fedswe.deploy import ServerEndpoint
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.flower.app_template import write_app
from fedswe.deploy.flower.credentials import write_credentials
from fedswe.deploy.flower.processes import MARK, ProcessSupervisor, Program, free_ports, listening, marked
from fedswe.deploy.flower.trial import CONNECTION, Federation, Trial
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate, assemble
from fedswe.tasks.problem import Setting
from tests.cli.command import fedswe
from tests.deploy.parts import Network, quadratic

SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"


def program(folder, code, restart=0.0):
    environment = {**os.environ, MARK: str(folder)}
    return Program("test", [sys.executable, "-c", code], folder / "test.log", environment, restart)


def until(condition, seconds=20):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_everything_is_stopped_also_what_has_detached_itself(tmp_path):
    with ProcessSupervisor(str(tmp_path)) as supervisor:
        supervisor.start(program(tmp_path, PARENT))
        supervisor.start(program(tmp_path, SLEEP))
        until(lambda: len(marked(str(tmp_path))) == 3)
    assert marked(str(tmp_path)) == []


def failing(folder, failure):
    """A supervisor in which something happens while a program that ignores SIGTERM runs."""
    with ProcessSupervisor(str(folder)) as supervisor:
        supervisor.start(program(folder, STUBBORN))
        until(lambda: (folder / "test.log").read_text() == "x\n")
        failure()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_everything_is_stopped_by_a_signal(tmp_path, monkeypatch, number):
    monkeypatch.setattr("fedswe.deploy.flower.processes._GRACE", 0.5)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        failing(tmp_path, lambda: (os.kill(os.getpid(), number), time.sleep(5)))
    assert marked(str(tmp_path)) == []
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_does_not_leave_half_of_them_running(tmp_path, monkeypatch, number):
    monkeypatch.setattr("fedswe.deploy.flower.processes._GRACE", 0.5)
    again = threading.Timer(0.3, os.kill, (os.getpid(), number))  # while the stubborn program is waited for
    with pytest.raises(KeyboardInterrupt):
        failing(tmp_path, lambda: (again.start(), os.kill(os.getpid(), signal.SIGINT), time.sleep(5)))
    assert marked(str(tmp_path)) == []


def test_a_dead_program_is_started_again(tmp_path):
    with ProcessSupervisor(str(tmp_path)) as supervisor:
        started = supervisor.start(program(tmp_path, SLEEP))
        first = started.process.pid
        os.kill(first, signal.SIGKILL)
        until(lambda: supervisor.check() == [(started, -9)])
        until(lambda: supervisor.check() == [] and started.process is not None)
        assert started.process.pid != first
        assert started.failures == 1


def test_pauses_grow_while_a_program_ends_right_after_its_start(tmp_path):
    failing = program(tmp_path, "raise ValueError('no [data]')", restart=1.0)
    assert failing.pause == 1.0
    pauses = []
    for _ in range(8):
        assert not failing.failing
        failing.start()
        until(lambda: failing.process.poll() is not None)
        assert failing.check() == 1
        pauses.append(failing.pause)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert failing.failing
    assert failing.failure() == "ValueError: no [data]"
    failing.start()
    failing._changed -= 3600  # it has run for an hour
    until(lambda: failing.process.poll() is not None)
    failing.check()
    assert (failing.failing, failing.pause) == (False, 1.0)


def test_child_processes_of_a_program_that_has_ended_are_gone_before_it_starts_again(tmp_path):
    stays = f"subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], stdout=subprocess.PIPE)"
    leaves = f"import subprocess, sys; {stays}.stdout.readline()"
    with ProcessSupervisor(str(tmp_path)) as supervisor:
        started = supervisor.start(program(tmp_path, leaves, restart=600))
        until(supervisor.check)
        (left,) = marked(str(tmp_path))
        started.command = [sys.executable, "-c", SLEEP]
        started.start()
        until(lambda: left not in marked(str(tmp_path)))
        assert len(marked(str(tmp_path))) == 1


def test_a_program_that_stays_suspended_is_killed_and_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr("fedswe.deploy.flower.processes._SUSPENDED", 0.5)
    monkeypatch.setattr("fedswe.deploy.flower.processes._CHECK_SUSPENDED", 0.1)
    ended = []
    with ProcessSupervisor(str(tmp_path), lambda program, code: ended.append(code)) as supervisor:
        started = supervisor.start(program(tmp_path, SLEEP))
        first = started.process.pid
        os.kill(first, signal.SIGSTOP)
        until(lambda: supervisor.check() is not None and started.process is not None and started.process.pid != first)
    assert ended == [-9]


def test_programs_are_stopped_that_hide_their_environment(tmp_path, monkeypatch):
    """Flower's SuperExec does, from every user but root."""
    with ProcessSupervisor(str(tmp_path)) as supervisor:
        hidden = supervisor.start(program(tmp_path, SLEEP))
        monkeypatch.setattr("fedswe.deploy.flower.processes.marked", lambda mark: [])
    assert hidden.process.poll() is not None


class Client:
    """Stands for the program of a node."""

    def __init__(self, number, failing):
        self.name, self.log, self.essential, self.failing = f"client-{number}", f"{number}.log", False, failing

    def failure(self):
        return f"ValueError: \x1b[31m[/bold]\nof {self.name}"


def test_a_broken_client_is_named_once_and_the_others_go_on(capsys):
    nodes = [Client(0, False), Client(1, True), Client(2, False)]
    needed = Needed(nodes, min_clients=2, deadline=60)
    needed.check()
    needed.check()
    assert capsys.readouterr().out == (
        r"broken    client-1 stops right after its start (ValueError: \x1b[31m[/bold]\nof client-1): "
        "see 1.log; the others go on without it\n"
    )
    nodes[2].failing = True
    with pytest.raises(FedsweError, match=r"needs 2 clients and only 1 of 3 can run: client-1 stops.*; client-2 stops"):
        needed.check()


def test_a_run_that_does_not_go_on_says_why(capsys, monkeypatch):
    needed = Needed([Client(0, False)], min_clients=1, deadline=60)
    needed.check()
    assert capsys.readouterr().out == ""
    later = time.monotonic() + 200
    monkeypatch.setattr("fedswe.cli.deploy_up.time.monotonic", lambda: later)
    needed.check()
    needed.check()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "waiting   no round for 180 s: each needs 1 connected clients"
    assert said[1].startswith("waiting   the last error of client-0: ValueError")
    assert len(said) == 2


def test_a_program_that_everything_needs_ends_the_trial(tmp_path):
    broken = program(tmp_path, SLEEP)
    broken.failures = 8
    with pytest.raises(FedsweError, match="test stops right after its start: see"):
        Needed([broken], min_clients=0, deadline=60).check()


def test_a_superlink_that_is_killed_while_it_starts_is_started_again(tmp_path, monkeypatch):
    trial = Trial(tmp_path, tmp_path, clients=1)
    trial.prepare()
    with ProcessSupervisor(str(tmp_path)) as supervisor:
        federation = Federation(trial, supervisor)
        listens = f"import socket, time; s = socket.create_server(('127.0.0.1', {federation.port})); time.sleep(600)"
        allowed = f"os.path.exists({str(tmp_path / 'x')!r})"
        code = f"import os; exec({listens!r}) if {allowed} else os.kill(os.getpid(), 9)"
        superlink = program(tmp_path, code, restart=0.1)
        monkeypatch.setattr(federation, "_superlink", lambda: superlink)
        monkeypatch.setattr(federation, "_superexec", lambda: program(tmp_path, SLEEP))
        monkeypatch.setattr(federation, "_supernode", lambda client: program(tmp_path, SLEEP))
        threading.Timer(0.2, (tmp_path / "x").touch).start()
        federation.start()
        assert superlink.failures >= 1
        assert len(supervisor.programs) == 3


def test_a_superlink_that_cannot_start_is_an_error(tmp_path, monkeypatch):
    trial = Trial(tmp_path, tmp_path, clients=1)
    trial.prepare()
    with ProcessSupervisor(str(tmp_path)) as supervisor:
        federation = Federation(trial, supervisor)
        monkeypatch.setattr(federation, "_superlink", lambda: program(tmp_path, "raise SystemExit(3)", restart=0.1))
        with pytest.raises(FedsweError, match="the SuperLink did not start: see"):
            federation.start()


@pytest.mark.parametrize("name", ["a b", "it's", 'the "real" one', "🌼 ü", "a=b.toml"])
def test_settings_reach_flower_whatever_the_path(tmp_path, name):
    trial = Trial(tmp_path / name, tmp_path / name / "run", clients=1)
    trial.prepare()
    federation = Federation(trial, ProcessSupervisor(str(tmp_path)))
    command = federation._supernode(0).command
    settings = parse_config_args([command[command.index("--node-config") + 1]])
    assert settings == {"partition-id": 0, "num-partitions": 1, "state-dir": str(trial.state(0))}


def test_free_ports_are_free_and_distinct():
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert not any(listening(port) for port in ports)
    with socket.socket() as server:
        server.bind(("127.0.0.1", ports[0]))
        server.listen()
        assert listening(ports[0])


def test_certificates_are_accepted_for_loopback_only_from_this_authority(tmp_path):
    write_credentials(tmp_path / "ours", 1)
    write_credentials(tmp_path / "other", 1)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "ours" / "server.crt", tmp_path / "ours" / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_shake_hands, args=(listener, server, 2), daemon=True).start()
        for authority, accepted in (("ours", True), ("other", False)):
            client = ssl.create_default_context(cafile=str(tmp_path / authority / "ca.crt"))
            with socket.create_connection(listener.getsockname()) as plain:
                if accepted:
                    with client.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                        assert secure.version() == "TLSv1.3"
                else:
                    with pytest.raises(ssl.SSLCertVerificationError):
                        client.wrap_socket(plain, server_hostname="127.0.0.1")


def _shake_hands(listener, context, times):
    for _ in range(times):
        connection, _ = listener.accept()
        try:
            with connection, context.wrap_socket(connection, server_side=True):
                pass
        except OSError:
            continue  # the client did not like the certificate


def test_the_written_app_is_complete_and_its_own_task_trains_in_the_simulator(tmp_path, monkeypatch):
    write_app(tmp_path / "app", 5, tls=False)
    deployment = Deployment.load(tmp_path / "app" / "deployment.toml")
    assert (deployment.experiment.task.clients, deployment.min_clients) == (5, 3)
    table = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    assert table["tool"]["flwr"]["app"]["components"]["serverapp"] == "federation.server:app"
    monkeypatch.syspath_prepend(str(tmp_path / "app"))
    words = ["task.name=federation.task:Own", "rounds=8", "local.steps=4", "availability.name=always", "task.clients=5"]
    engine = assemble(Deployment.load(tmp_path / "app" / "deployment.toml", words).experiment)
    before = engine.problem.evaluate(engine.server_model())["test_accuracy"]
    for _ in range(8):
        engine.step()
    after = engine.problem.evaluate(engine.client_mean())["test_accuracy"]
    assert after > before + 0.2
    setting = Setting(3, torch.float32, torch.device("cpu"), holds_data=False)
    alone = Deployment.load(tmp_path / "app" / "deployment.toml", words).experiment.task.build(setting)
    list(alone.draw(torch.tensor([2]), 0, 3, 16))
    assert list(alone.samples._kept) == [2]  # a client reads only its own data
    sys.modules.pop("federation.task", None)
    sys.modules.pop("federation", None)


def test_own_data_in_a_folder(tmp_path, monkeypatch):
    write_app(tmp_path / "app", 2, tls=False)
    monkeypatch.syspath_prepend(str(tmp_path / "app"))
    monkeypatch.setenv("FEDSWE_DATA", str(tmp_path / "sets"))  # where the data sets of the simulator are
    monkeypatch.setenv("FEDERATION_DATA", str(tmp_path))
    np.savez(tmp_path / "client-1.npz", x=np.ones((6, 8)), y=np.arange(6) % 3)
    words = ["task.name=federation.task:Own", "task.clients=2"]
    problem = Deployment.load(tmp_path / "app" / "deployment.toml", words).problem()
    (batch,) = problem.draw(torch.tensor([1]), 0, 1, 4)
    assert problem.gradient(problem.start, batch.client(0)).shape == problem.start.shape
    assert problem.evaluate(problem.start) == {}
    sys.modules.pop("federation.task", None)
    sys.modules.pop("federation", None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Flower reads patterns with
def test_the_app_travels_with_its_packages_and_nothing_else(tmp_path):
    app = tmp_path / "app"
    write_app(app, 1, tls=True)
    for name in ("federation/nets/small.py", "run/federation/server.py", "secret.py", "federation/data.npz"):
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).touch()
    with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(app))) as fab:
        files = {name for name in fab.namelist() if not name.startswith(".info")}
    own = {f"federation/{name}.py" for name in ("__init__", "client", "server", "task", "nets/small")}
    assert files == own | {"pyproject.toml", "deployment.toml", "clients.toml"}


MISTAKES = {
    ("up", "{tmp}/nothing"): "holds no app",
    ("up", "{app}", "--clients", "9"): "--clients must be from 1 to 3",
    ("up", "{app}", "--clients", "1"): "a round needs 2 clients",
    ("up", "{app}", "deploy.delivry=lazy"): "did you mean delivery?",
    ("up", "{app}", "task.name=nowhere:Task"): "task nowhere:Task: cannot import nowhere",
    ("up", "{app}", "--run", "{app}/deployment.toml/x"): "choose another --run",
    ("init", "{app}"): "is not empty: choose another folder",
    ("init", "{app}/deployment.toml"): "cannot write",
    ("init", "{tmp}/new", "--clients", "0"): "--clients must be at least 1",
    ("verify", "{tmp}"): "holds no deployment",
    ("status", "{tmp}"): "holds no deployment",
    ("trace", "{tmp}"): "holds no deployment",
    ("export", "{tmp}"): "holds no deployment",
}


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_mistakes_get_one_line(tmp_path, monkeypatch, capsys, words):
    write_app(tmp_path / "app", 3, tls=False)
    given = [word.format(tmp=tmp_path, app=tmp_path / "app") for word in words]
    code, _, said = fedswe(monkeypatch, capsys, "deploy", *given)
    assert code == 2
    assert said.startswith("error: ")
    assert MISTAKES[words] in said
    assert said.count("\n") == 1
    assert not (tmp_path / "app" / "run").exists()


def test_up_refuses_clients_that_have_no_key(tmp_path, monkeypatch, capsys):
    write_app(tmp_path / "app", 2, tls=True)
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "up", tmp_path / "app", "task.clients=3")
    assert (code, "has no key of client 2" in said, said.count("\n")) == (2, True, 1)
    assert not (tmp_path / "app" / "run").exists()


def test_a_folder_with_the_name_of_the_connection_is_not_in_the_way(tmp_path, monkeypatch):
    """`fedswe deploy init trial`, as documented: `flwr ... trial` would take it for an app of an older Flower."""
    write_app(tmp_path / CONNECTION, 1, tls=False)
    monkeypatch.chdir(tmp_path)
    trial = Trial(tmp_path / CONNECTION, tmp_path / "run", clients=1)
    trial.prepare()
    with pytest.raises(FedsweError, match="Connection to the SuperLink is unavailable"):  # so it looked for that
        Federation(trial, ProcessSupervisor(str(tmp_path)))._flwr("supernode", "list", CONNECTION)


def test_up_refuses_the_directory_of_another_run(tmp_path, monkeypatch, capsys):
    write_app(tmp_path / "app", 2, tls=False)
    deployment = Deployment.load(tmp_path / "app" / "deployment.toml")
    ServerEndpoint.open(tmp_path / "app" / "run", deployment).release()
    code, _, said = fedswe(monkeypatch, capsys, "deploy", "up", tmp_path / "app", "algorithm.k=9")
    assert (code, "holds a run of another algorithm" in said) == (2, True)
    assert not (tmp_path / "app" / "run" / "flower").exists()


def test_a_server_is_submitted_only_to_a_superlink_that_listens(tmp_path, monkeypatch):
    """When both were killed; Flower's own command gives up at once where nobody listens."""
    trial = Trial(tmp_path, tmp_path, clients=1)
    trial.prepare()
    supervisor = ProcessSupervisor(str(tmp_path))
    federation, progress = Federation(trial, supervisor), Progress(tmp_path, rounds=1, evaluate=Evaluate())
    heard = []

    def submit(overrides):
        heard.append(federation.listening())
        progress._printed = 1
        return "1"

    monkeypatch.setattr(federation, "submit", submit)
    with socket.socket() as superlink:
        superlink.bind(("127.0.0.1", federation.port))
        restart = threading.Timer(1.0, superlink.listen)
        restart.start()
        _watch(federation, supervisor, progress, [], Needed([], min_clients=1, deadline=60))
        restart.join()
    assert heard == [True]


def test_text_from_outside_is_shown_and_not_obeyed(tmp_path, capsys):
    progress = Progress(tmp_path, rounds=1, evaluate=Evaluate())
    (tmp_path / "server.log").write_text("client 1 failed: no [/data] \x1b[2J\x07\r\u202e \u00fc\nsecond\n")
    assert not progress.look()
    assert capsys.readouterr().out == (
        r"warning   client 1 failed: no [/data] \x1b[2J\x07\r\u202e " + "\u00fc\nwarning   second\n"
    )


def test_without_flower_results_can_be_read_and_the_rest_says_what_to_install(tmp_path):
    deployment = quadratic("fedswe", rounds=2, m=2)
    net = Network(tmp_path, deployment)
    net.finish()
    net.server.release()
    hidden = "import sys; sys.modules.update(flwr=None, psutil=None); from fedswe.cli import main; main()"

    def command(*words):
        done = subprocess.run([sys.executable, "-c", hidden, "deploy", *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    code, said = command("status", str(tmp_path / "server"))
    assert (code, "2 of 2 committed" in said) == (0, True)
    code, said = command("verify", str(tmp_path / "server"))
    assert (code, "passed" in said) == (0, True)
    code, said = command("init", str(tmp_path / "app"))
    assert (code, said) == (2, "error: flwr is not installed: pip install 'fedswe[flower]'\n")


def test_keys_are_never_overwritten(tmp_path):
    write_credentials(tmp_path / "keys", 1)
    before = (tmp_path / "keys" / "client-0.key").read_bytes()
    with pytest.raises(FileExistsError):
        write_credentials(tmp_path / "keys", 1)
    assert (tmp_path / "keys" / "client-0.key").read_bytes() == before
