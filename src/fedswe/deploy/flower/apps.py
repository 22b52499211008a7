"""The two apps that Flower runs: the ServerApp runs the rounds, the ClientApp answers one message per process."""

from __future__ import annotations

import shlex
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp

from fedswe.deploy.client import ClientEndpoint
from fedswe.deploy.deployment import FILE, Deployment
from fedswe.deploy.flower.private_files import make_private
from fedswe.deploy.flower.transport import FlowerTransport, Nodes, unwrap, wrap
from fedswe.deploy.rounds import Rounds
from fedswe.deploy.server import ServerEndpoint
from fedswe.errors import FedsweError, require
from fedswe.tasks.problem import Problem


def server_app(folder: Path) -> ServerApp:
    """The ServerApp of the app in `folder`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        deployment = _deployment(folder, _overrides(context))
        with ServerEndpoint.open(_private("run-dir", context.run_config.get("run-dir")), deployment) as server:
            by_key = context.run_config.get("trust-keys", True)
            numbers = server.problem.m
            nodes = Nodes.of_app(folder, numbers) if by_key else Nodes(numbers, None)
            transport = FlowerTransport(grid, nodes, deployment.deadline, server.largest_message)
            Rounds(server, transport, {"flwr": version("flwr")}).run()

    return app


def client_app(folder: Path, mods: list[Mod] | None = None) -> ClientApp:
    """The ClientApp of the app in `folder`; `mods` are Flower's modifiers of messages."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return _answer(message, context, folder)

    @app.query("deliver")
    def deliver(message: Message, context: Context) -> Message:
        return _answer(message, context, folder)

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        return Message(RecordDict({"hello": ConfigRecord({"client": _number(context)})}), reply_to=message)

    return app


def _answer(message: Message, context: Context, folder: Path) -> Message:
    deployment, problem = _opened(folder, _overrides(context))
    state = _private("state-dir", context.node_config.get("state-dir"), context.run_config.get("state-dir"))
    endpoint = ClientEndpoint.open(state, deployment, _number(context), problem)
    data = unwrap(message, endpoint.largest_message)
    return Message(wrap(endpoint.handle(data).to_bytes()), reply_to=message)


@lru_cache(maxsize=1)
def _opened(folder: Path, overrides: str) -> tuple[Deployment, Problem]:
    """Cached, because Flower's simulation engine handles many messages in one process."""
    deployment = _deployment(folder, overrides)
    return deployment, deployment.problem()


def _deployment(folder: Path, overrides: str) -> Deployment:
    return Deployment.load(folder / FILE, shlex.split(overrides))


def _overrides(context: Context) -> str:
    return str(context.run_config.get("overrides", ""))


def _private(key: str, *settings: object) -> Path:
    """The folder that the first of the settings names which is not empty; only this user can read it."""
    for value in settings:
        if value:
            folder = Path(str(value)).expanduser()
            make_private(folder)
            return folder
    raise FedsweError(f"{key} is missing: give it in [tool.flwr.app.config] or with --run-config '{key}=\"...\"'")


def _number(context: Context) -> int:
    """Which client this is. With authentication the server decides by the key instead."""
    number = context.node_config.get("partition-id")
    require(isinstance(number, int), "partition-id is missing: start the SuperNode with --node-config partition-id=N")
    return int(str(number))
