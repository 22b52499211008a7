"""Runs the commands of systemd units as systemd does: with its environment, and each in its network namespace."""

import os
import shlex
import subprocess
from collections import defaultdict
from contextlib import ExitStack

from fedswe.deploy.flower.processes import MARK

SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"


def parse(path, instance=""):
    """section -> key -> values, with %i filled in."""
    sections, current = {}, None
    for line in path.read_text().replace("%i", instance).splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), defaultdict(list))
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            current[key].append(value)
    return sections


class Namespace:
    """A network namespace with a loopback interface, as PrivateNetwork=yes gives; kept by a process that sleeps."""

    def __init__(self):
        self._holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "ip link set lo up && echo ready && exec sleep 100000"],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout.readline() == b"ready\n"

    def inside(self, command):
        return ["nsenter", "-t", str(self._holder.pid), "-n", *command]

    def close(self):
        self._holder.kill()
        self._holder.wait()
        self._holder.stdout.close()


def possible():
    """Whether this process may make network namespaces."""
    return subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0


class Machine:
    """One machine with units; those with PrivateNetwork share a namespace, the others use this machine's network."""

    def __init__(self, folder, mark, instance=""):
        self.folder, self._mark, self._instance = folder, mark, instance
        self.log = folder / "units.log"
        self._stack = ExitStack()
        self.namespace = None

    def start(self, name):
        """Start a service, or a socket with its service."""
        if name.endswith(".socket"):
            socket = parse(self.folder / name)["Socket"]
            before = ["systemd-socket-activate", "-l", socket["ListenStream"][0]]
            return self._spawn(parse(self.folder / name.replace(".socket", ".service")), before)
        return self._spawn(parse(self.folder / name, self._instance), [])

    def run(self, name, seconds=200):
        """Run a oneshot service to its end; its output."""
        unit = parse(self.folder / name, self._instance)
        said = ""
        for command in (*unit["Service"]["ExecStartPre"], *unit["Service"]["ExecStart"]):
            done = subprocess.run(
                self._command(unit, shlex.split(command)),
                env=self._environment(unit),
                cwd=unit["Service"]["WorkingDirectory"][0],
                capture_output=True,
                text=True,
                timeout=seconds,
            )
            said += done.stdout + done.stderr
            assert done.returncode == 0, said
        return said

    def _spawn(self, unit, before):
        (command,) = unit["Service"]["ExecStart"]
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                self._command(unit, [*before, *shlex.split(command)]),
                env=self._environment(unit),
                cwd=unit["Service"]["WorkingDirectory"][0],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                umask=int(unit["Service"]["UMask"][0], 8),
            )
        self._stack.callback(_end, process)
        return process

    def _command(self, unit, words):
        if words[0].endswith("nginx"):  # of root, its worker would be another user's, unlike in a unit with User=
            words = [f"{word} user root;" if word == "daemon off;" else word for word in words]
        if unit["Service"]["PrivateNetwork"] != ["yes"]:
            return words
        if self.namespace is None:
            self.namespace = Namespace()
        return self.namespace.inside(words)

    def _environment(self, unit):
        given = dict(word.split("=", 1) for line in unit["Service"]["Environment"] for word in shlex.split(line))
        ours = {key: value for key, value in os.environ.items() if key == "PYTHONPATH"}  # where fedswe is under test
        return {"PATH": SYSTEMD_PATH, **given, **ours, MARK: self._mark}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()  # in the reverse order of the starts
        if self.namespace is not None:
            self.namespace.close()


def _end(process):
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
