"""What a SuperNode runs: one message in, one answer out. Flower starts a new process for each."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from fedswe.deploy.client import ClientEndpoint
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.flower.messages import deployment_of, folder_named, overrides_of, unwrapped, wrapped
from fedswe.errors import require
from fedswe.tasks.problem import Problem


def client_app(folder: Path, mods: list[Mod] | None = None) -> ClientApp:
    """The ClientApp of the app in `folder`, with Flower's modifiers around every message."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return _answered(message, context, folder)

    @app.query("deliver")
    def deliver(message: Message, context: Context) -> Message:
        return _answered(message, context, folder)

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        return Message(RecordDict({"hello": ConfigRecord({"client": _number(context)})}), reply_to=message)

    return app


def _answered(message: Message, context: Context, folder: Path) -> Message:
    deployment, problem = _opened(folder, overrides_of(context))
    state = folder_named("state-dir", context.node_config.get("state-dir"), context.run_config.get("state-dir"))
    endpoint = ClientEndpoint.open(state, deployment, _number(context), problem)
    return Message(wrapped(endpoint.handle(unwrapped(message)).to_bytes()), reply_to=message)


@lru_cache(maxsize=1)
def _opened(folder: Path, overrides: str) -> tuple[Deployment, Problem]:
    """Flower's simulation engine serves many messages from one process; the data are read once."""
    deployment = deployment_of(folder, overrides)
    return deployment, deployment.problem()


def _number(context: Context) -> int:
    """Which client this is. With authentication the server knows better: it goes by the key."""
    number = context.node_config.get("partition-id")
    require(isinstance(number, int), "partition-id is missing: start the SuperNode with --node-config partition-id=N")
    return int(str(number))
