"""Start a SuperNode and its SuperExec, and stop both when one of them ends or hangs."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from fedswe.deploy.flower.node.signs_of_life import Receiver
from fedswe.deploy.flower.processes import free_ports
from fedswe.errors import FedsweError, require

_MODULES = {"SuperNode": "fedswe.deploy.flower.node.supernode", "SuperExec": "fedswe.deploy.flower.node.superexec"}
_FIRST, _FURTHER = 180.0, 60.0  # seconds until the first sign of life, and between two
_GRACE = 8.0  # seconds between SIGTERM and SIGKILL
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    life: Receiver


def run_node(options: Sequence[str]) -> None:
    """Run a node with the options of `flower-supernode` until SIGTERM or SIGINT; an error if a part of it ends."""
    supernode, superexec = _commands(options)
    with ExitStack() as stack:
        for number in _SIGNALS:
            stack.callback(signal.signal, number, signal.signal(number, _stop))
        children: list[_Child] = []
        stack.callback(_stop_all, children)
        try:
            secret = secrets.token_hex(32).encode()
            children.append(_start("SuperNode", supernode, secret))
            children.append(_start("SuperExec", superexec, secret))
            while True:
                for child in children:
                    code = child.process.poll()
                    require(code is None, f"the {child.name} has ended (exit code {code}): start the node again")
                    require(not child.life.silent(), f"the {child.name} does not respond: start the node again")
                time.sleep(0.2)
        except _Stopped:
            return


class _Stopped(BaseException):
    """This process was told to end."""


def _stop(number: int, frame: object) -> None:
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # a second signal must not interrupt the stopping
    raise _Stopped


def _commands(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of the SuperNode, and those of the SuperExec that follow from them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--isolation", "--superexec-auth-secret-file", "--ssl-ca-certfile"):
        parser.add_argument(name)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    parser.add_argument("--allow-runtime-dependency-installation", action="store_true")
    try:
        known, others = parser.parse_known_args(list(options))
    except argparse.ArgumentError as error:
        raise FedsweError(f"options of the SuperNode: {error}") from None
    for name in ("isolation", "superexec_auth_secret_file"):
        option = f"--{name.replace('_', '-')}"
        require(getattr(known, name) is None, f"leave out {option}: the node sets it")
    port = str(known.port or free_ports(1)[0])
    supernode = [*others, "--isolation", "process", "--host", known.host, "--port", port]
    superexec = ["--runtime-api-address", f"{known.host}:{port}"]
    if known.ssl_ca_certfile:
        supernode += ["--ssl-ca-certfile", known.ssl_ca_certfile]
        superexec += ["--root-certificates", known.ssl_ca_certfile]
    else:
        superexec += ["--insecure"]
    if known.allow_runtime_dependency_installation:
        supernode += ["--allow-runtime-dependency-installation"]
        superexec += ["--allow-runtime-dependency-installation"]
    return supernode, superexec


def _start(name: str, options: Sequence[str], secret: bytes) -> _Child:
    life = Receiver(_FIRST, _FURTHER)
    reading, writing = os.pipe()  # not a file: nobody else can read the secret
    os.write(writing, secret)
    os.close(writing)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [sys.executable, "-m", _MODULES[name], str(life.handle), *options]
    process = subprocess.Popen(
        [*command, "--superexec-auth-secret-file", f"/dev/fd/{reading}"],
        stdin=subprocess.DEVNULL,
        env=environment,  # Flower starts its own programs by name
        pass_fds=(life.handle, reading),
    )
    os.close(reading)
    life.started()
    return _Child(name, process, life)


def _stop_all(children: Sequence[_Child]) -> None:
    """SIGTERM, the SuperNode first: it tells the SuperLink that it goes. Then SIGKILL."""
    with suppress(psutil.Error):
        everything = psutil.Process().children(recursive=True)
        for child in children:
            child.process.send_signal(signal.SIGCONT)  # a suspended process does not end
            child.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(_GRACE)
        for process in everything:
            with suppress(psutil.Error):
                process.kill()
    for child in children:
        child.process.wait()
        child.life.close()
