"""A whole federation on one machine: a real SuperLink, SuperExec and SuperNodes on loopback.

The layout is that of an installation: the SuperLink keeps its state in a database, the ServerApp runs outside it, under
a SuperExec of its own, which shares a secret with it, and with TLS the SuperNodes connect through nginx.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import tomli_w

from fedswe.deploy.flower.credentials import days_left, public_key_of, write_secret
from fedswe.deploy.flower.node_keys import FILE, read_keys
from fedswe.deploy.flower.private_files import make_private
from fedswe.deploy.flower.processes import MARK, ProcessSupervisor, Program, free_ports, listening, marked
from fedswe.deploy.flower.proxy import Proxy, find_nginx
from fedswe.deploy.flower.registration import Connection, synchronise
from fedswe.errors import FedsweError, require, warn
from fedswe.results.files import write_whole

CONNECTION = "trial"
_START_LIMIT = 90.0  # seconds a SuperLink may take until it listens
_START_ATTEMPTS = 4  # starts in a row that a SuperLink may fail before it has ever listened
_SERVER_LIMIT = 90.0  # seconds a submitted server may take until its process runs
_ANSWER_LIMIT = 120.0  # seconds a command of Flower may take
_CHECK_INTERVAL = 2.0  # seconds between two checks that the server process runs
_END_LIMIT = 20.0  # seconds a ServerApp may take to end after the last round
_RENEW = 30  # days before its end from which on a certificate gets a warning


@dataclass(frozen=True)
class Trial:
    """The app, the run directory and the number of clients."""

    app: Path
    run: Path
    clients: int
    simulation: bool = False  # use Flower's simulation engine instead of SuperNodes

    @property
    def home(self) -> Path:
        return self.run / "flower"

    @property
    def keys(self) -> Path | None:
        """Certificates and node keys, if the app was written with --tls."""
        folder = self.app / "keys"
        return folder if folder.is_dir() and not self.simulation else None

    @property
    def secret(self) -> Path:
        """What the SuperExec shows to the SuperLink, so that other users of this machine get no jobs."""
        return self.home / "superexec.secret"

    @property
    def environment(self) -> dict[str, str]:
        here = Path(sys.executable).parent
        return {
            **os.environ,
            "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}",  # Flower starts its own programs by name
            "FLWR_HOME": str(self.home),  # nothing is written to the user's home
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),  # many processes share one machine
            MARK: str(self.run),
        }

    def prepare(self) -> None:
        """Check keys and certificate; make the folders for logs and client state, which only this user can read."""
        if self.keys:
            left = days_left(self.keys / "server.crt")
            require(left >= 0, f"{self.keys / 'server.crt'} has expired: `fedswe deploy renew {self.app}` renews it")
            if left < _RENEW:
                warn(f"{self.keys / 'server.crt'} expires in {left} days: `fedswe deploy renew {self.app}` renews it")
            self.with_keys()
        try:
            make_private(self.run)
            for folder in (self.home / "logs", *(self.state(i) for i in range(self.clients))):
                folder.mkdir(parents=True, exist_ok=True)
            write_secret(self.secret)
        except OSError as error:
            raise FedsweError(f"cannot make {error.filename}: {error.strerror}; choose another --run") from None

    def with_keys(self) -> list[int]:
        """The clients whose nodes are started: all without TLS; with it, those that have a key in clients.toml."""
        if not self.keys:
            return list(range(self.clients))
        keys = read_keys(self.app)[: self.clients]
        require(
            len(keys) == self.clients,
            f"{self.app / FILE} has no key of client {len(keys)}: "
            f"`fedswe deploy keys rotate {self.app} {len(keys)}` gives it one",
        )
        for client, key in enumerate(keys):
            rotate = f"`fedswe deploy keys rotate {self.app} {client}` gives it a new one"
            if key is None:
                warn(f"client {client} has no key: {rotate}")
            elif public_key_of(self.keys / f"client-{client}.key") != key:
                warn(f"{self.keys / f'client-{client}.key'} is not the key of client {client} in {FILE}: {rotate}")
        return [client for client, key in enumerate(keys) if key is not None]

    def state(self, client: int) -> Path:
        return self.run / "clients" / f"client-{client}"


class Federation:
    """The running programs of a trial."""

    def __init__(self, trial: Trial, supervisor: ProcessSupervisor) -> None:
        self.trial, self._supervisor = trial, supervisor
        self.port, proxy = free_ports(2)
        self._address = f"127.0.0.1:{self.port}"
        self.nginx = find_nginx() if trial.keys else None
        self.fleet = f"127.0.0.1:{proxy}" if self.nginx else self._address  # where SuperNodes connect
        self._superlink_program: Program | None = None
        self._submitted = self._seen = self._checked = 0.0  # times: server submitted, last seen running, last checked
        connection: dict[str, object] = {"address": self._address}
        if trial.keys:
            connection["root-certificates"] = str(trial.keys / "ca.crt")
        else:
            connection["insecure"] = True
        write_whole(trial.home / "config.toml", tomli_w.dumps({"superlink": {CONNECTION: connection}}))

    def start(self) -> None:
        """Start the SuperLink, then the programs that connect to it."""
        self._superlink_program = self._supervisor.start(self._superlink())
        self._await_superlink(self._superlink_program)
        self._supervisor.start(self._superexec())
        if self.trial.simulation:
            return
        if self.trial.keys:
            self._register(self.trial.keys)
        if self.nginx:
            self._supervisor.start(self._proxy(self.nginx))
        for client in self.trial.with_keys():
            self._supervisor.start(self._supernode(client))

    def listening(self) -> bool:
        """Whether the SuperLink can be reached."""
        return listening(self.port)

    def _await_superlink(self, superlink: Program) -> None:
        """Until it listens; it is started again if it ends meanwhile."""
        limit = time.monotonic() + _START_LIMIT
        while not self.listening():
            self._supervisor.check()
            if superlink.failures >= _START_ATTEMPTS or time.monotonic() > limit:
                raise FedsweError(f"the SuperLink did not start: see {superlink.log}")
            time.sleep(0.1)

    def submit(self, overrides: Sequence[str]) -> str:
        """Send the app to the SuperLink; returns the id of the run."""
        settings = {
            "run-dir": str(self.trial.run),
            "state-dir": str(self.trial.run / "clients"),
            "overrides": shlex.join(overrides),
            "trust-keys": not self.trial.simulation,
        }
        arguments = [
            "run", str(self.trial.app), CONNECTION,
            "--run-config", self._settings("run", settings),
        ]  # fmt: skip
        if self.trial.simulation:
            arguments += ["--federation-config", f"num-supernodes={self.trial.clients} client-resources-num-cpus=1"]
        answer = self._flwr(*arguments)
        self._submitted = self._seen = self._checked = time.monotonic()
        return str(answer["run-id"])

    def server_ended(self) -> bool:
        """Whether the submitted server has ended. Flower itself takes 90 s to notice that it was killed."""
        now = time.monotonic()
        if now - self._checked < _CHECK_INTERVAL:
            return False
        self._checked = now
        if self._server_alive():
            self._seen = now
        return now - self._seen > (_SERVER_LIMIT if self._seen == self._submitted else _CHECK_INTERVAL + 0.5)

    def wait_until_ended(self) -> None:
        """Wait for the server of a finished run to end, so that the SuperLink records the run as finished."""
        limit = time.monotonic() + _END_LIMIT
        while time.monotonic() < limit and self._server_alive():
            time.sleep(0.2)

    def _server_alive(self) -> bool:
        name = "flwr-simulation" if self.trial.simulation else "flwr-serverapp"
        for process in marked(str(self.trial.run)):
            with suppress(psutil.Error):
                if any(name in word for word in process.cmdline()):
                    return True
        return False

    def refusal(self, run: str) -> str:
        """The error message with which the ServerApp refused to run; empty if it ended for another reason."""
        found = re.findall(r"FedsweError: (.*)", self._flower("log", run, CONNECTION, "--show").stdout)
        return str(found[-1]).strip() if found else ""

    # the programs --------------------------------------------------------------------------------------
    def _superlink(self) -> Program:
        keys, home = self.trial.keys, self.trial.home
        command = [
            "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            "--database", str(home / "superlink.db"), "--isolation", "process",
            "--disable-runtime-dependency-installation", "--superexec-auth-secret-file", str(self.trial.secret),
        ]  # fmt: skip
        if self.trial.simulation:
            command += ["--simulation"]
        if keys:
            command += [
                "--ssl-ca-certfile", str(keys / "ca.crt"), "--ssl-certfile", str(keys / "server.crt"),
                "--ssl-keyfile", str(keys / "server.key"), "--enable-supernode-auth",
            ]  # fmt: skip
        else:
            command += ["--insecure"]
        return self._program("superlink", command)

    def _superexec(self) -> Program:
        # With the number of this process: it ends if this process is killed, also where nobody else can stop it.
        command = ["flower-superexec", "--runtime-api-address", self._address, *self._trust()]
        command += ["--parent-pid", str(os.getpid()), "--superexec-auth-secret-file", str(self.trial.secret)]
        return self._program("superexec", command)

    def _proxy(self, nginx: str) -> Program:
        """The same nginx as in an installation, but in one process, which bears the mark of the trial."""
        keys, folder = self.trial.app / "keys", self.trial.home / "proxy"
        folder.mkdir(exist_ok=True)
        (folder / "keys").unlink(missing_ok=True)
        (folder / "keys").symlink_to(keys)  # nginx takes some characters of a path for syntax
        write_whole(folder / "nginx.conf", Proxy(self.fleet, self._address, "keys/").configuration())
        options = "daemon off; master_process off;"
        command = [nginx, "-e", "stderr", "-p", str(folder), "-c", "nginx.conf", "-g", options]
        log = self.trial.home / "logs" / "proxy.log"
        return Program("proxy", command, log, self.trial.environment)

    def _supernode(self, client: int) -> Program:
        keys, name = self.trial.keys, f"client-{client}"
        place = {"partition-id": client, "num-partitions": self.trial.clients}
        file = self._settings(name, {**place, "state-dir": str(self.trial.state(client))})
        command = [
            "fedswe", "deploy", "node", "--", "--superlink", self.fleet, "--node-config", file, *self._trust()
        ]  # fmt: skip
        if keys:
            command += ["--auth-supernode-private-key", str(keys / f"client-{client}.key")]
        return replace(self._program(name, command), essential=False)

    def _settings(self, name: str, settings: Mapping[str, object]) -> str:
        """A file for --node-config or --run-config: on the command line, Flower does not read every path."""
        path = self.trial.home / f"{name}.toml"
        write_whole(path, tomli_w.dumps(settings))
        return str(path)

    def _trust(self) -> list[str]:
        keys = self.trial.keys
        return ["--root-certificates", str(keys / "ca.crt")] if keys else ["--insecure"]

    def _program(self, name: str, command: list[str]) -> Program:
        command[0] = _program(command[0])
        return Program(name, command, self.trial.home / "logs" / f"{name}.log", self.trial.environment)

    # Flower's command line -----------------------------------------------------------------------------
    def _register(self, keys: Path) -> None:
        changes = synchronise(Connection(self._address, keys / "ca.crt"), read_keys(self.trial.app))
        for client in changes.unusable:
            warn(
                f"the key of client {client} was revoked before, and Flower takes no key twice: "
                f"`fedswe deploy keys rotate {self.trial.app} {client}` gives it a new one"
            )

    def _flwr(self, *arguments: str) -> dict[str, object]:
        """Run a command of Flower; once more if the SuperLink was killed meanwhile."""
        done = self._flower(*arguments, "--format", "json")
        if done.returncode and self._superlink_program is not None:
            self._supervisor.check()
            if not self.listening():
                self._await_superlink(self._superlink_program)
                done = self._flower(*arguments, "--format", "json")
        try:
            answer = json.loads(done.stdout)
        except json.JSONDecodeError:
            answer = {}
        if done.returncode or not isinstance(answer, dict) or not answer.get("success"):
            said = (answer.get("error-message") if answer else None) or done.stderr or done.stdout
            raise FedsweError(f"flwr {arguments[0]} failed: {' '.join(str(said).split())[:400]}")
        return answer

    def _flower(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command, home = [_program("flwr"), *arguments], self.trial.home
        try:
            # In our own folder: if the working directory has a folder with the name of the connection, Flower takes
            # the name for that folder.
            return subprocess.run(
                command, env=self.trial.environment, cwd=home, capture_output=True, text=True, timeout=_ANSWER_LIMIT
            )
        except subprocess.TimeoutExpired:
            raise FedsweError(
                f"flwr {arguments[0]} did not answer in {_ANSWER_LIMIT:g} s: see {home / 'logs'} and try again"
            ) from None


def _program(name: str) -> str:
    """A program installed beside this Python."""
    return str(Path(sys.executable).parent / name)
